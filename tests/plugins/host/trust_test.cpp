// Tests who may have written a file that is loaded: every user who could have written or replaced
// it is found, for any path that leads to it.
#include "plugins/host/trust.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "tests/plugins/host/support.h"

namespace plugins::host::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uid_t kOtherUser = 65534;  // the user nobody
constexpr gid_t kOtherGroup = 65534;

std::string refusal(const fs::path& path) {
  return error_of([&] { check_file(path, "plugin " + path.string()); }).what();
}

// The fixture has <temporary>/outer/inner/file.so, all owned by this user.
class Trust : public ::testing::Test {
 protected:
  Trust() {
    fs::create_directories(inner_);
    std::ofstream(file_) << "anything";
    mode(outer_, 0755);
    mode(inner_, 0755);
    mode(file_, 0644);
  }

  static void mode(const fs::path& path, mode_t bits) { ASSERT_EQ(::chmod(path.c_str(), bits), 0); }
  bool accepted(const fs::path& path) const {
    try {
      return check_file(path, "plugin").path == fs::canonical(path);
    } catch (const Error&) {
      return false;
    }
  }

  TemporaryFolder folder_;
  fs::path outer_ = folder_ / "outer", inner_ = outer_ / "inner", file_ = inner_ / "file.so";
};

TEST_F(Trust, AcceptsWhatOnlyThisUserCanWrite) {
  const CheckedFile checked = check_file(file_, "plugin");
  EXPECT_EQ(checked.path, file_);
  EXPECT_EQ(checked.identity.bytes, 8u);
  EXPECT_EQ(check_file(inner_ / "./file.so", "plugin").path, file_);
}

TEST_F(Trust, NamesAMissingFile) {
  EXPECT_THAT(refusal(inner_ / "none/libnone.so"),
              AllOf(HasSubstr((inner_ / "none").string()), HasSubstr("No such file")));
  EXPECT_THAT(refusal(inner_ / "none.so"), HasSubstr("No such file"));
  EXPECT_THAT(refusal(file_ / "below.so"), HasSubstr("is not a folder"));
}

TEST_F(Trust, RefusesRelativePathsAndParentFolders) {
  EXPECT_THAT(refusal("libexample.so"), HasSubstr("relative"));
  EXPECT_THAT(refusal("/usr/../lib/libexample.so"), HasSubstr("'..'"));
}

TEST_F(Trust, RefusesWhatIsNoRegularFile) {
  EXPECT_THAT(refusal(inner_), HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo((inner_ / "fifo.so").c_str(), 0600), 0);
  EXPECT_THAT(refusal(inner_ / "fifo.so"), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("not a regular file"));
}

TEST_F(Trust, RefusesAWorldWritableFile) {
  mode(file_, 0646);
  EXPECT_THAT(refusal(file_), AllOf(HasSubstr("the file " + file_.string()),
                                    HasSubstr("world-writable (mode 0646)"),
                                    HasSubstr("chmod o-w " + file_.string())));
  mode(file_, 0666);
  EXPECT_THAT(refusal(file_), HasSubstr("chmod go-w"));
}

TEST_F(Trust, RefusesAWritableFolderAtAnyHeight) {
  mode(inner_, 0757);
  EXPECT_THAT(refusal(file_), AllOf(HasSubstr("the folder " + inner_.string() + " is"),
                                    HasSubstr("chmod o-w " + inner_.string())));
  mode(inner_, 0755);
  mode(outer_, 0757);
  EXPECT_THAT(refusal(file_), HasSubstr("the folder " + outer_.string() + " is world-writable"));
}

// Other users can create files in such a folder, but cannot remove existing ones.
TEST_F(Trust, AFolderLikeTmpMayOnlyLeadToAFolder) {
  mode(outer_, 01777);
  EXPECT_TRUE(accepted(file_));
  mode(inner_, 01777);
  EXPECT_THAT(refusal(file_),
              AllOf(HasSubstr("where others can put files too"), HasSubstr(inner_.string())));
}

TEST_F(Trust, FollowsLinksAndChecksWhereTheyLie) {
  fs::create_directory(folder_ / "links");
  const fs::path link = folder_ / "links/link.so", far = folder_ / "links/far";
  mode(folder_ / "links", 0755);
  fs::create_symlink("../outer/inner/file.so", link);
  fs::create_directory_symlink(outer_, far);
  EXPECT_EQ(check_file(link, "plugin").path, file_);
  EXPECT_EQ(check_file(far / "inner/file.so", "plugin").path, file_);
  mode(folder_ / "links", 0777);
  EXPECT_THAT(refusal(link), HasSubstr("links is world-writable"));
  EXPECT_THAT(refusal(far / "inner/file.so"), HasSubstr("links is world-writable"));
  mode(folder_ / "links", 01777);
  EXPECT_THAT(refusal(link), HasSubstr("where others can put files too"));
  mode(folder_ / "links", 0755);
  mode(outer_, 0777);
  EXPECT_THAT(refusal(link), HasSubstr("outer is world-writable"));
}

TEST_F(Trust, ALinkThatLeadsToItselfEnds) {
  fs::create_symlink("loop.so", inner_ / "loop.so");
  EXPECT_THAT(refusal(inner_ / "loop.so"), HasSubstr("too many links"));
}

// Users who can write a folder above the program could replace the program itself, so these folders
// are excepted; folders beside the program are not.
TEST_F(Trust, FoldersAboveTheProgramAreExcepted) {
  const fs::path prefix = folder_ / "prefix", plugins = prefix / "lib/runtime/plugins";
  for (const char* name : {"bin", "libexec/runtime", "lib/runtime/plugins"})
    fs::create_directories(prefix / name);
  fs::copy_file(LIST_PLUGINS, prefix / "bin/list");
  fs::copy_file(PLUGIN_PROBE, prefix / "libexec/runtime/plugin_probe");
  fs::copy_file(fixture("example"), plugins / "libexample.so");
  const auto list = [&] {
    const std::string command = "ASAN_OPTIONS=detect_leaks=0 " + (prefix / "bin/list").string();
    std::string output;
    FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    char buffer[4096];
    while (pipe != nullptr && std::fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
    ::pclose(pipe);
    return output;
  };
  mode(prefix, 0777);
  EXPECT_THAT(list(), HasSubstr("plugin example"));
  mode(prefix / "lib", 0777);
  EXPECT_THAT(list(), HasSubstr("the folder " + (prefix / "lib").string() + " is world-writable"));
}

class TrustOfOthers : public Trust {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  }
  static void give(const fs::path& path, uid_t user, gid_t group) {
    ASSERT_EQ(::lchown(path.c_str(), user, group), 0);
  }
};

TEST_F(TrustOfOthers, RefusesWhatAnotherUserOwns) {
  give(file_, kOtherUser, 0);
  EXPECT_THAT(refusal(file_), AllOf(HasSubstr(file_.string() + " belongs to uid 65534"),
                                    HasSubstr("uid 0"), HasSubstr("chown 0 ")));
  give(file_, 0, 0);
  give(outer_, kOtherUser, 0);
  EXPECT_THAT(refusal(file_), HasSubstr(outer_.string() + " belongs to uid 65534"));
  give(outer_, 0, 0);
  fs::create_symlink(file_, inner_ / "link.so");
  EXPECT_TRUE(accepted(inner_ / "link.so"));
  give(inner_ / "link.so", kOtherUser, 0);
  EXPECT_THAT(refusal(inner_ / "link.so"), HasSubstr("link.so belongs to uid 65534"));
}

TEST_F(TrustOfOthers, RefusesWhatAGroupCanWrite) {
  give(file_, 0, kOtherGroup);
  mode(file_, 0664);
  EXPECT_THAT(refusal(file_), AllOf(HasSubstr("group-writable (mode 0664, gid 65534)"),
                                    HasSubstr("chmod g-w " + file_.string())));
  mode(file_, 0644);
  give(outer_, 0, kOtherGroup);
  mode(outer_, 0775);
  EXPECT_THAT(refusal(file_), HasSubstr("the folder " + outer_.string() + " is group-writable"));
  mode(outer_, 01775);
  EXPECT_TRUE(accepted(file_));
}

// With umask 002 every user has a private group of the same name, which has no other member.
TEST_F(TrustOfOthers, AcceptsThePrivateGroupOfATrustedUser) {
  give(file_, 0, 0);
  mode(file_, 0664);
  mode(inner_, 0775);
  EXPECT_TRUE(accepted(file_)) << "the group root has other members here";
}

}  // namespace
}  // namespace plugins::host::testing
