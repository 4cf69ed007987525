// With little memory, few threads or few descriptors a command succeeds, or ends with a documented
// exit code and a message.
#include "tests/runtime/cli/shell.h"

namespace runtime::cli {
namespace {

class Limits : public ShellTest {
 protected:
  // With exit code 126 or 127 the shell or the dynamic loader failed before the program began.
  void expect_an_answer(const std::string& limit, const std::string& line) {
    const test::ProcessResult r = limited(limit, line);
    const std::string what = limit + ": " + line + " ended with " + std::to_string(r.exit_code);
    const bool loader = r.exit_code == 126 || r.exit_code == 127;
    EXPECT_TRUE(r.exit_code == 0 || loader || (r.exit_code >= 3 && r.exit_code <= 5))
        << what << "\n"
        << r.err;
    if (r.exit_code != 0 && !loader) {
      EXPECT_THAT(r.err, testing::HasSubstr("error: ")) << what;
    }
    succeeded_ += r.exit_code == 0;
    failed_ += r.exit_code != 0;
  }
  int succeeded_ = 0, failed_ = 0;
};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes
TEST_F(Limits, OfTheAddressSpace) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the plugin cpu was not built";
  for (const char* ranks : {"1", "2"}) {
    succeeded_ = failed_ = 0;
    for (int mib = 40; mib <= 1500; mib += mib < 500 ? 14 : 100) {
      expect_an_answer("-v " + std::to_string(mib << 10),
                       std::string("runtime train tiny.toml --max-steps 2 --set "
                                   "device.backend=cpu --set device.threads=2 --nproc ") +
                           ranks);
    }
    EXPECT_GT(succeeded_, 3) << ranks << " ranks";
    EXPECT_GT(failed_, 0) << ranks << " ranks";
  }
}

// Convolutions by oneDNN and by our own kernels, which need more memory.
TEST_F(Limits, OfTheAddressSpaceWithConvolutions) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the plugin cpu was not built";
  folder_.write("lenet.toml",
                "model.preset = \"lenet\"\ndataset.name = \"synthetic\"\ndataset.samples = 512\n"
                "dataset.classes = 10\ntraining.global_batch_size = 128\n");
  for (int mib = 60; mib <= 1000; mib += mib < 400 ? 20 : 150) {
    expect_an_answer("-v " + std::to_string(mib << 10),
                     "runtime train lenet.toml --max-steps 2 --set device.backend=cpu --set "
                     "device.threads=2");
  }
  EXPECT_GT(succeeded_, 0);
  EXPECT_GT(failed_, 0);
}
#endif

TEST_F(Limits, OfDescriptors) {
  for (int count = 4; count <= 28; count += 3) {
    expect_an_answer("-n " + std::to_string(count), "runtime train tiny.toml --max-steps 2");
    expect_an_answer("-n " + std::to_string(count),
                     "runtime train tiny.toml --max-steps 2 --nproc 2");
  }
  EXPECT_GT(succeeded_, 0);
}

TEST_F(Limits, OfTheStack) {
  for (const int kib : {256, 512, 1024, 1 << 20}) {
    expect_an_answer("-s " + std::to_string(kib), "runtime train tiny.toml --max-steps 2");
  }
  EXPECT_GT(succeeded_, 0);
}

}  // namespace
}  // namespace runtime::cli
