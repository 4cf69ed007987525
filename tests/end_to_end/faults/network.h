// Simulates machines with links between them by network namespaces that are private to this
// process.
#ifndef TESTS_END_TO_END_FAULTS_NETWORK_H_
#define TESTS_END_TO_END_FAULTS_NETWORK_H_

#include <string>
#include <vector>

namespace runtime::faults {

// Needs root, or a kernel that lets users create namespaces. After the constructor the process
// stays in the namespace that it entered last. join() connects two machines directly: their
// interfaces are "link0" in the network 10.213.0.0/24.
class Network {
 public:
  // Check why_not() before use: it is "" if the machines exist, otherwise the reason.
  explicit Network(int machines);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  const std::string& why_not() const { return why_not_; }

  void join(int one, const std::string& address, int other, const std::string& other_address);
  // Connects two interfaces with any names; returns false if that is not possible.
  bool link(int one, const std::string& name, const std::string& address, int other,
            const std::string& other_name, const std::string& other_address);
  void enter(int machine) const;  // moves the calling thread and its future children to the machine
  bool run(int machine, const std::string& command) const;
  // Sets the ports that the kernel chooses from for listeners without a port and for outgoing
  // connections.
  bool set_ports(int machine, int first, int last) const;

 private:
  std::string why_not_;
  std::vector<int> machines_;  // descriptors of the namespaces
};

}  // namespace runtime::faults

#endif  // TESTS_END_TO_END_FAULTS_NETWORK_H_
