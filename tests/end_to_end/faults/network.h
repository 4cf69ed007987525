// Machines with links between them, as network namespaces that only this process has.
#ifndef TESTS_END_TO_END_FAULTS_NETWORK_H_
#define TESTS_END_TO_END_FAULTS_NETWORK_H_

#include <string>
#include <vector>

namespace runtime::faults {

// Root, or a kernel that lets users have namespaces; the process stays in the last one entered.
// join(): the interface of a machine is "link0" and has a network of its own, 10.213.0.0/24.
class Network {
 public:
  // Check why_not() before use: "" if the machines are there.
  explicit Network(int machines);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  const std::string& why_not() const { return why_not_; }

  void join(int one, const std::string& address, int other, const std::string& other_address);
  // A link between interfaces of any names; false where that is not possible.
  bool link(int one, const std::string& name, const std::string& address, int other,
            const std::string& other_name, const std::string& other_address);
  void enter(int machine) const;  // the calling thread, and what it starts from now on
  bool run(int machine, const std::string& command) const;
  // The ports that listen when nobody has asked for one, and that connections come from.
  bool set_ports(int machine, int first, int last) const;

 private:
  std::string why_not_;
  std::vector<int> machines_;  // descriptors
};

}  // namespace runtime::faults

#endif  // TESTS_END_TO_END_FAULTS_NETWORK_H_
