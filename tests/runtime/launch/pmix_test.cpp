// The PMIx store with Open MPI's mpirun.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>

#include "runtime/launch/pmix_store.h"
#include "tests/runtime/launch/store_support.h"

namespace runtime::launch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

bool succeeds(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((command + " 2>&1").c_str(), "r"),
                                                   ::pclose);
  std::string text;
  std::array<char, 4096> buffer;
  while (pipe != nullptr && std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr)
    text += buffer.data();
  return text;
}

std::string mpirun(const std::string& options) {
  return output_of("timeout -k 5 60 mpirun.openmpi --allow-run-as-root --oversubscribe " + options +
                   " " + PMIX_PROGRAM);
}

TEST(Pmix, RanksOfOneHost) {
  if (!succeeds("mpirun.openmpi --version")) GTEST_SKIP() << "Open MPI is not installed";
  EXPECT_THAT(mpirun("-n 3"), AllOf(HasSubstr("rank 0 passed"), HasSubstr("rank 1 passed"),
                                    HasSubstr("rank 2 passed")));
}

// Two daemons of mpirun have different host names, so values go from one PMIx server to the other.
TEST(Pmix, RanksOfTwoHosts) {
  if (!succeeds("mpirun.openmpi --version")) GTEST_SKIP() << "Open MPI is not installed";
  // Without root, unshare needs a user namespace (-r). Root does without one, because none can be
  // made inside a chroot.
  const std::string unshare = ::geteuid() == 0 ? "unshare -u " : "unshare -ru ";
  if (!succeeds(unshare + "hostname other")) GTEST_SKIP() << "no namespace of host names";
  const TempFolder folder;
  const std::filesystem::path agent = folder.path() / "agent";
  std::ofstream(agent) << "#!/bin/sh\n"
                          "name=$1; shift\n"
                          "exec "
                       << unshare << "sh -c \"hostname $name; $*\"\n";
  std::filesystem::permissions(agent, std::filesystem::perms::owner_all);
  EXPECT_THAT(mpirun("--mca plm_rsh_agent " + agent.string() +
                     " --mca plm_rsh_no_tree_spawn 1 --host one:2,two:2 -n 4"),
              AllOf(HasSubstr("rank 0 passed"), HasSubstr("rank 1 passed"),
                    HasSubstr("rank 2 passed"), HasSubstr("rank 3 passed")));
}

TEST(Pmix, WithoutALauncherSaysSo) {
  ::setenv("PMIX_NAMESPACE", "nobody", 1);
  ::setenv("PMIX_RANK", "0", 1);
  EXPECT_THAT(message_of([] { PmixStore store(2); }),
              AllOf(HasSubstr("PMIx namespace nobody"), HasSubstr("start the ranks with mpirun")));
}

}  // namespace
}  // namespace runtime::launch::test
