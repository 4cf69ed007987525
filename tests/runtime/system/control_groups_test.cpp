// Checks limits of both versions of control groups, from made-up files.
#include "runtime/system/control_groups.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace runtime::system {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// A folder with the files of control groups, which is removed at the end.
class ControlGroups : public testing::Test {
 protected:
  ControlGroups() : folder_(fs::temp_directory_path() / ("groups-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    files_ = {(folder_ / "cgroup").string(), (folder_ / "root").string()};
  }
  ~ControlGroups() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }

  fs::path folder_;
  GroupFiles files_;
};

TEST_F(ControlGroups, WithoutThemThereIsNoLimit) {
  EXPECT_EQ(memory_left_in_groups(files_), kNoLimit);
  EXPECT_EQ(processors_in_groups(files_), 0);
  EXPECT_GE(usable_processors(), 1);
}

TEST_F(ControlGroups, TheSecondVersion) {
  write("cgroup", "0::/pod/one\n");
  write("root/pod/one/memory.max", "max\n");
  write("root/pod/one/memory.current", "700\n");
  write("root/pod/one/cpu.max", "max 100000\n");
  EXPECT_EQ(memory_left_in_groups(files_), kNoLimit);
  EXPECT_EQ(processors_in_groups(files_), 0);
  write("root/pod/memory.max", "1000\n");  // a group above has the limit
  write("root/pod/memory.current", "900\n");
  write("root/pod/memory.stat", "anon 600\ninactive_file 300\n");
  write("root/pod/cpu.max", "250000 100000\n");
  EXPECT_EQ(memory_left_in_groups(files_), 400u);
  EXPECT_EQ(processors_in_groups(files_), 2);
}

TEST_F(ControlGroups, TheFirstVersion) {
  write("cgroup", "11:memory:/pod\n4:cpu,cpuacct:/pod\n3:cpuset:/\n");
  write("root/memory/pod/memory.limit_in_bytes", "1000\n");
  write("root/memory/pod/memory.usage_in_bytes", "900\n");
  write("root/memory/pod/memory.stat", "inactive_file 1\ntotal_inactive_file 300\n");
  write("root/cpu,cpuacct/pod/cpu.cfs_quota_us", "390000\n");
  write("root/cpu,cpuacct/pod/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(memory_left_in_groups(files_), 400u);
  EXPECT_EQ(processors_in_groups(files_), 3);
  write("root/cpu,cpuacct/pod/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(processors_in_groups(files_), 0);
}

// A container names the group as the host does, and mounts that group as the root.
TEST_F(ControlGroups, OfAContainer) {
  write("cgroup", "11:memory:/kubepods/pod7\n4:cpu,cpuacct:/kubepods/pod7\n");
  write("root/memory/memory.limit_in_bytes", "1000\n");
  write("root/memory/memory.usage_in_bytes", "1200\n");
  write("root/cpu/cpu.cfs_quota_us", "50000\n");  // half a processor
  write("root/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(memory_left_in_groups(files_), 0u);
  EXPECT_EQ(processors_in_groups(files_), 1);
}

TEST_F(ControlGroups, BrokenFilesAreNoLimit) {
  write("cgroup", "\n0\n0:\n0::pod\n1:cpu\n2:memory:\n");
  write("root/memory/memory.limit_in_bytes", "many\n");
  write("root/pod/cpu.max", "100000 0\n");
  EXPECT_EQ(memory_left_in_groups(files_), kNoLimit);
  EXPECT_EQ(processors_in_groups(files_), 0);
}

}  // namespace
}  // namespace runtime::system
