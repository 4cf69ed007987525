// Makes network namespaces that stand for machines, and the links between them.
#include "tests/end_to_end/faults/network.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace runtime::faults {

namespace {

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  return static_cast<bool>((file << text).flush());
}

// Makes the process root in a user namespace of its own; once per process.
bool become_root() {
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (user == "0") return true;
  return unshare(CLONE_NEWUSER) == 0 && write_file("/proc/self/setgroups", "deny") &&
         write_file("/proc/self/uid_map", "0 " + user + " 1") &&
         write_file("/proc/self/gid_map", "0 " + group + " 1");
}

}  // namespace

Network::Network(int machines) {
  if (!become_root()) why_not_ = std::string("no namespace for users: ") + std::strerror(errno);
  for (int i = 0; i < machines && why_not_.empty(); ++i) {
    if (unshare(CLONE_NEWNET) != 0) {
      why_not_ = std::string("no network namespace: ") + std::strerror(errno);
      return;
    }
    machines_.push_back(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    if (!run(i, "ip link set lo up")) why_not_ = "no 'ip', or it may not change interfaces";
  }
}

Network::~Network() {
  for (const int machine : machines_) close(machine);
}

void Network::join(int one, const std::string& address, int other,
                   const std::string& other_address) {
  if (!link(one, "link0", address, other, "link0", other_address))
    why_not_ = "two network namespaces cannot be joined by a veth";
}

bool Network::link(int one, const std::string& name, const std::string& address, int other,
                   const std::string& other_name, const std::string& other_address) {
  const std::string peer =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(machines_[other]);
  return run(one,
             "ip link add " + name + " type veth peer name " + other_name + " netns " + peer) &&
         run(one, "ip address add " + address + "/24 dev " + name) &&
         run(other, "ip address add " + other_address + "/24 dev " + other_name) &&
         run(one, "ip link set " + name + " up") && run(other, "ip link set " + other_name + " up");
}

void Network::enter(int machine) const {
  ASSERT_EQ(setns(machines_[machine], CLONE_NEWNET), 0) << std::strerror(errno);
}

bool Network::run(int machine, const std::string& command) const {
  enter(machine);
  return std::system(command.c_str()) == 0;
}

bool Network::set_ports(int machine, int first, int last) const {
  enter(machine);
  return write_file("/proc/sys/net/ipv4/ip_local_port_range",
                    std::to_string(first) + " " + std::to_string(last));
}

}  // namespace runtime::faults
