// Lists and files of hosts, as users write them.
#include "tools/launch/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "runtime/error.h"

namespace tools::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string text(const std::vector<Host>& hosts) {
  std::string all;
  for (const Host& host : hosts)
    all += host.name + "*" + std::to_string(host.ranks) + "@" + address_of(host) + " ";
  return all;
}

template <class Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const runtime::ConfigurationError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// A file of the test, which the destructor removes.
struct HostFile {
  explicit HostFile(const std::string& content) { std::ofstream(path) << content; }
  ~HostFile() { std::remove(path.c_str()); }
  const std::string path = testing::TempDir() + "hosts_test_hosts";
};

TEST(Hosts, OfAList) {
  EXPECT_EQ(text(parse_hosts("a", 1)), "a*1@a ");
  EXPECT_EQ(text(parse_hosts("a, b:4,me@c.d:2,10.0.0.1", 3)),
            "a*3@a b*4@b me@c.d*2@c.d 10.0.0.1*3@10.0.0.1 ");
  EXPECT_EQ(text(parse_hosts("fd00::2,[fd00::3],[fe80::1%eth0]:8", 2)),
            "fd00::2*2@[fd00::2] fd00::3*2@[fd00::3] fe80::1%eth0*8@[fe80::1%eth0] ");
  EXPECT_EQ(text(parse_hosts("a,a", 1)), "a*1@a a*1@a ");
}

TEST(Hosts, OfAFile) {
  const HostFile file(
      "# the first rack\na\n\n  b slots=4 # with four devices\nc:2\r\nfd00::2 slots=3\n");
  EXPECT_EQ(text(read_host_file(file.path, 5)), "a*5@a b*4@b c*2@c fd00::2*3@[fd00::2] ");
}

TEST(Hosts, WhatIsNoHostIsRefused) {
  for (const char* list :
       {"", "a,", ",a", "a,,b", "a:", "a:0", "a:-1", "a:4097", "a:x", "a:4x", "[fd00::2",
        "[fd00::2]4", "-oProxyCommand=x", "a b", "a;b", "$(b)", "[]"}) {
    EXPECT_THAT(refusal([&] { parse_hosts(list, 1); }),
                AllOf(HasSubstr("--hosts: got '"), HasSubstr("expected a host")))
        << list;
  }
  const HostFile file("a\nb cores=4\n");
  EXPECT_THAT(refusal([&] { read_host_file(file.path, 1); }),
              AllOf(HasSubstr(file.path + ":2: got 'b cores=4'"), HasSubstr("b:4")));
  const HostFile empty("# nobody\n");
  EXPECT_THAT(refusal([&] { read_host_file(empty.path, 1); }), HasSubstr("names no host"));
  EXPECT_THAT(refusal([&] { read_host_file("/no/such/file", 1); }),
              AllOf(HasSubstr("/no/such/file"), HasSubstr("cannot be read")));
}

}  // namespace
}  // namespace tools::launch
