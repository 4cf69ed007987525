// Binaries of plugins of earlier releases, which must load in every later host; those that can,
// train. build.sh made them.
#include <sys/utsname.h>

#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "plugins/host/communicator.h"
#include "plugins/host/device.h"
#include "tests/runtime/cli/program.h"

namespace runtime::cli {
namespace {

namespace fs = std::filesystem;
using plugins::host::Device;
using plugins::host::Operation;
using plugins::host::Plugin;
using ::testing::HasSubstr;

// The commits of which plugins are kept, oldest first, and the minor version of each.
const std::map<std::string, uint32_t> kReleases = {{"7046b9e", 0}};

std::string machine() {
  utsname name{};
  ::uname(&name);
  return name.machine;
}

class KeptPlugins : public ProgramTest, public ::testing::WithParamInterface<std::string> {
 protected:
  // A copy that nobody else can write, whatever the checkout allows: the host refuses others.
  void SetUp() override {
    const fs::path kept = fs::path(KEPT_FOLDER) / GetParam() / machine();
    if (!fs::exists(kept)) GTEST_SKIP() << "no plugins are kept for the machine " << machine();
    fs::copy(kept, copies_);
    for (const auto& file : fs::directory_iterator(copies_))
      fs::permissions(file, fs::perms::group_write | fs::perms::others_write,
                      fs::perm_options::remove);
  }

  std::shared_ptr<Plugin> load(const std::string& name) {
    return Plugin::load(copies_ / ("lib" + name + ".so"), {});
  }

  // The losses of a training with the kept plugins.
  std::vector<double> losses(std::vector<std::string> settings) {
    std::vector<std::string> arguments = {"train", job_};
    const fs::path run = folder_.path() / "run";
    fs::remove_all(run);
    settings.push_back("job.dump_folder=" + run.string());
    settings.push_back("metrics.log_every_steps=1");
    for (const std::string& setting : settings)
      arguments.insert(arguments.end(), {"--set", setting});
    output(arguments, environment_);
    std::vector<double> values;
    std::ifstream lines(run / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const auto row = nlohmann::json::parse(line);
      if (row.contains("loss")) values.push_back(row["loss"]);
    }
    EXPECT_FALSE(values.empty());
    return values;
  }

  const fs::path copies_ = folder_.path() / "kept";
  const std::map<std::string, std::string> environment_ = {
      {"RUNTIME_PLUGIN_PATH", copies_.string()}};
};

TEST_P(KeptPlugins, Load) {
  for (const char* name :
       {"example", "template_device", "backend_reference", "collectives_local"}) {
    const auto plugin = load(name);
    EXPECT_EQ(plugin->minor(), kReleases.at(GetParam())) << name;
  }
}

TEST_P(KeptPlugins, AreThoseThatTheProgramTakes) {
  for (const char* name : {"example", "template", "reference", "local"}) {
    const std::string text = output({"plugins", "info", name}, environment_);
    EXPECT_THAT(text, HasSubstr(copies_.string())) << name;
    EXPECT_THAT(text, HasSubstr("contract     1." + std::to_string(kReleases.at(GetParam()))));
  }
}

TEST_P(KeptPlugins, Compute) {
  const auto device = Device::open(load("template_device"), 0, {});
  Operation scale;
  scale.name = "scale";
  scale.inputs = scale.outputs = {plugins::host::make_tensor_desc(RT_FLOAT32, {3})};
  scale.attributes = {{"alpha", 2.0}};
  EXPECT_EQ(device->query(scale).level, RT_SUPPORT_NATIVE);
  auto kernel = device->create_kernel(scale);
  auto stream = device->create_stream();
  float x[] = {1, 2, 3}, y[3] = {};
  const void* inputs[] = {x};
  void* outputs[] = {y};
  kernel.launch(stream, {sizeof(rt_launch), 1, inputs, outputs, 1, 0, nullptr, nullptr});
  EXPECT_EQ(y[2], 6);
}

// A function that came later is refused without a question, because the plugin would answer with an
// error.
TEST_P(KeptPlugins, AreNotAskedForWhatCameLater) {
  const auto device = Device::open(load("backend_reference"), 0, {});
  Operation activation;
  activation.name = "activation";
  activation.inputs = activation.outputs = {plugins::host::make_tensor_desc(RT_FLOAT32, {3})};
  activation.attributes = {{"function", int64_t{5}}};
  EXPECT_EQ(device->query(activation).level, RT_SUPPORT_NATIVE);
  activation.attributes = {{"function", int64_t{6}}};
  const auto support = device->query(activation);
  EXPECT_EQ(support.level, RT_SUPPORT_REFUSED);
  EXPECT_THAT(support.reason, HasSubstr("since minor version 1"));
}

// A post-operation that came later is not fused, nor are those behind it.
TEST_P(KeptPlugins, FuseWhatStandsInFrontOfWhatCameLater) {
  const auto device = Device::open(load("backend_reference"), 0, {});
  Operation matmul;
  matmul.name = "matmul";
  const auto square = plugins::host::make_tensor_desc(RT_FLOAT32, {3, 3});
  matmul.inputs = {square, square, plugins::host::make_tensor_desc(RT_FLOAT32, {3}), square};
  matmul.outputs = {square, square};
  matmul.post_ops = {{RT_POST_BIAS, 0, 2},
                     {RT_POST_STORE, 0, -1},
                     {RT_POST_ACTIVATION, 1, -1},
                     {RT_POST_RESIDUAL_ADD, 0, 3}};
  const auto support = device->query(matmul);
  EXPECT_EQ(support.level, RT_SUPPORT_NATIVE);
  EXPECT_EQ(support.post_ops_fused, 1U);
}

TEST_P(KeptPlugins, AreNotAskedForFormsThatCameLater) {
  const auto device = Device::open(load("backend_reference"), 0, {});
  Operation matmul;
  matmul.name = "matmul";
  matmul.attributes = {{"transpose_a", int64_t{1}}};
  const auto square = plugins::host::make_tensor_desc(RT_BFLOAT16, {3, 3});
  matmul.inputs = {square, square};
  matmul.outputs = {square};
  EXPECT_EQ(device->query(matmul).level, RT_SUPPORT_NATIVE);
  matmul.outputs = {square, plugins::host::make_tensor_desc(RT_BFLOAT16, {3})};
  EXPECT_THAT(device->query(matmul).reason, HasSubstr("second output since minor version 1"));
  matmul.outputs = {plugins::host::make_tensor_desc(RT_FLOAT32, {3, 3})};
  EXPECT_THAT(device->query(matmul).reason, HasSubstr("another type since minor version 1"));
}

TEST_P(KeptPlugins, Train) {
  const auto reference = losses({"device.backend=reference"});
  const auto example = losses({"device.backend=example"});
  ASSERT_EQ(example.size(), reference.size());
  for (std::size_t i = 0; i < reference.size(); ++i) {
    EXPECT_NEAR(example[i], reference[i], 1e-5 * reference[i]) << "step " << i;
  }
}

// The communicator `local` of 7046b9e does not say that its ranks are threads, so the program
// cannot start them. They work together all the same.
TEST_P(KeptPlugins, Communicate) {
  const auto local = load("collectives_local");
  EXPECT_EQ(plugins::host::list_capabilities(*local).size(), std::size_t{RT_BARRIER});
  const auto sum = [&](int32_t rank) {
    plugins::host::CommunicatorOptions options;
    options.rank = options.local_rank = rank;
    options.world_size = 2;
    options.prefix = "kept";
    const auto communicator = plugins::host::Communicator::create(local, options);
    float send = static_cast<float>(rank + 1), receive = 0;
    communicator
        ->enqueue(
            plugins::host::make_collective(RT_ALL_REDUCE, RT_FLOAT32, &send, &receive, 1, RT_SUM))
        .wait(std::chrono::seconds(20));
    return receive;
  };
  auto other = std::async(std::launch::async, sum, 1);
  EXPECT_EQ(sum(0), 3);
  EXPECT_EQ(other.get(), 3);
}

std::vector<std::string> releases() {
  std::vector<std::string> names;
  for (const auto& release : kReleases) names.push_back(release.first);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Releases, KeptPlugins, ::testing::ValuesIn(releases()),
                         [](const auto& release) { return release.param; });

}  // namespace
}  // namespace runtime::cli
