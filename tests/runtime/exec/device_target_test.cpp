// Checks what passes are told of a device, and how candidates are measured.
#include "runtime/exec/device_target.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <string>

#include "runtime/exec/decision_cache.h"
#include "runtime/graph/fuse.h"
#include "runtime/graph/layout.h"
#include "tests/runtime/support/compile.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

// By default AddressSanitizer ends a program that asks for more memory than there is, as a test
// below does.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the name is ASan's
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace runtime::exec {
namespace {

using graph::Build;
using graph::Graph;
using graph::ValueId;
using graph::ValueKind;

// A packed layout of the weights [16,3,3,16] of the device's convolution, in which the device can
// add two tensors element by element without knowing where their padding is.
uint64_t packed_weights(plugins::host::Device& device) {
  plugins::host::Operation op;
  op.name = RT_OP_CONV2D;
  op.inputs = {plugins::host::make_tensor_desc(RT_FLOAT32, {4, 12, 12, 16}, RT_LAYOUT_ANY),
               plugins::host::make_tensor_desc(RT_FLOAT32, {16, 3, 3, 16}, RT_LAYOUT_ANY)};
  op.outputs = {plugins::host::make_tensor_desc(RT_FLOAT32, {4, 10, 10, 16}, RT_LAYOUT_ANY)};
  for (const rt_candidate& c : device.query(op).candidates) {
    plugins::host::Operation add;
    add.name = RT_OP_ADD;
    const auto w = plugins::host::make_tensor_desc(RT_FLOAT32, {16, 3, 3, 16}, c.input_layouts[1]);
    add.inputs = {w, w};
    add.outputs = {w};
    const bool foreign = c.input_layouts[1] != RT_LAYOUT_CANONICAL;
    if (foreign && device.query(add).level != RT_SUPPORT_REFUSED) return c.input_layouts[1];
  }
  return RT_LAYOUT_CANONICAL;
}

// y = sigmoid(a + b), shaped like weights. sigmoid(0) is not 0, so it would change the padding.
Graph sigmoid_of_sum(int64_t rows = 16) {
  Graph graph;
  Build build(graph);
  build.layer = "sum";
  const auto input = [&](const char* name) {
    return test::add_value(graph, name, ValueKind::kInput, {rows, 3, 3, 16}, RT_FLOAT32);
  };
  const ValueId sum = build.add(input("a"), input("b"));
  graph.value(build.activation(sum, RT_ACTIVATION_SIGMOID)).kind = ValueKind::kOutput;
  return graph;
}

class DeviceTargetTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_backend("cpu")) GTEST_SKIP() << "the plugin cpu was not built";
    device_ = test::open_device("cpu");
  }
  std::shared_ptr<plugins::host::Device> device_;
};

TEST(DeterministicTarget, RefusesWhatGivesOtherBitsEveryTime) {
  const auto device = test::open_device("simulated", {{"varying", "add"}});
  const Graph graph = sigmoid_of_sum();
  DeviceTarget any(device, {.tune = Tune::kOff});
  EXPECT_TRUE(any.support(graph, graph.nodes.front()).supported);
  DeviceTarget same(device, {.tune = Tune::kOff, .deterministic = true});
  const graph::Support refused = same.support(graph, graph.nodes.front());
  EXPECT_FALSE(refused.supported);
  EXPECT_NE(refused.reason.find("other bits every time"), std::string::npos) << refused.reason;
  EXPECT_TRUE(same.support(graph, graph.nodes.back()).supported);
}

// The simulated device refuses to choose the layout of an operand that is always canonical.
TEST(DeviceTarget, AsksForAnyLayoutOnlyWhereTheContractHasThem) {
  Graph graph;
  Build build(graph);
  const ValueId x = test::add_value(graph, "x", ValueKind::kInput, {4, 6}, RT_FLOAT32);
  const ValueId b = test::add_value(graph, "b", ValueKind::kParameter, {6}, RT_FLOAT32);
  graph.value(build.softmax(build.add(x, b))).kind = ValueKind::kOutput;
  DeviceTarget target(test::open_device("simulated"), {.tune = Tune::kOff});
  for (const graph::Node& node : graph.nodes)
    EXPECT_TRUE(target.support(graph, node).supported) << node.op;
  EXPECT_NO_THROW(graph::choose_layouts(graph, target));
}

TEST_F(DeviceTargetTest, CandidatesFuseAllPostOperations) {
  const uint64_t packed = packed_weights(*device_);
  ASSERT_NE(packed, RT_LAYOUT_CANONICAL);
  DeviceTarget target(device_, {.tune = Tune::kOff});
  Graph graph = sigmoid_of_sum();
  graph::fuse(graph, target);
  graph::remove_dead_nodes(graph);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_TRUE(target.candidates(graph, graph.nodes[0], {packed, packed}, {packed}).empty());
  EXPECT_EQ(target.candidates(graph, graph.nodes[0], {0, 0}, {0}).size(), 1u);
}

// A decision of an earlier run, for layouts in which the node cannot be created now.
TEST_F(DeviceTargetTest, ADecisionThatCannotBeMadeIsNotTakenFromTheCache) {
  const uint64_t packed = packed_weights(*device_);
  ASSERT_NE(packed, RT_LAYOUT_CANONICAL);
  DeviceTarget target(device_, {.tune = Tune::kOff});
  const Graph given = sigmoid_of_sum();
  Graph graph = given;
  graph::fuse(graph, target);
  graph::remove_dead_nodes(graph);
  const test::TemporaryFolder folder;
  graph::LayoutDecision decision = graph::decide_layouts(graph, target);
  decision[0].input_layouts = {packed, packed};
  decision[0].output_layouts = {packed};
  DecisionBook book;
  DecisionCache(folder.path(), decision_key(*device_, graph, "quick"), book).write(decision);
  Storage storage(device_);
  Arena arena(device_);
  const test::Compiled compiled =
      test::compile(given, device_, storage, arena, {{Tune::kQuick, false, folder.path()}});
  EXPECT_EQ(compiled.program->graph().nodes.size(), 1u);  // canonical, without copies
}

TEST_F(DeviceTargetTest, WhatFailsWhileItIsMeasuredIsLeftOut) {
  DeviceTarget target(device_, {.tune = Tune::kFull});
  Graph graph = sigmoid_of_sum();
  const auto good = target.candidates(graph, graph.nodes[0], {0, 0}, {0});
  ASSERT_EQ(good.size(), 1u);
  graph::Candidate bad = good[0];
  bad.algorithm = 0x700000001;  // an algorithm of a provider that does not exist
  std::vector<graph::Candidate> list = {bad, good[0], bad};
  target.measure(graph, graph.nodes[0], list);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].algorithm, good[0].algorithm);
  list = {bad, bad};
  target.measure(graph, graph.nodes[0], list);
  EXPECT_EQ(list.size(), 2u) << "somebody else shall report it";
}

TEST_F(DeviceTargetTest, WithoutMemoryForMeasuringEstimatesStay) {
  DeviceTarget target(device_, {.tune = Tune::kFull});
  Graph graph = sigmoid_of_sum();
  const auto good = target.candidates(graph, graph.nodes[0], {0, 0}, {0});
  ASSERT_EQ(good.size(), 1u);
  std::vector<graph::Candidate> list = {good[0], good[0]};
  list[1].input_bytes[0] = uint64_t{1} << 60;
  list[1].input_layouts = good[0].input_layouts;
  list[1].algorithm = good[0].algorithm | 2;  // an algorithm with another key
  list[0].ns = 123, list[1].ns = 456;
  target.measure(graph, graph.nodes[0], list);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].ns, 123);
  EXPECT_EQ(list[1].ns, 456);
}

// The same device with random times, so that each seed decides for other layouts, as noisy
// measurements may.
class NoisyTarget : public DeviceTarget {
 public:
  NoisyTarget(std::shared_ptr<plugins::host::Device> device, uint32_t seed)
      : DeviceTarget(std::move(device), {.tune = Tune::kOff}), random_(seed) {}
  bool measures() const override { return true; }
  void measure(const Graph&, const graph::Node&,
               std::vector<graph::Candidate>& candidates) override {
    for (graph::Candidate& c : candidates) c.ns = static_cast<double>(random_() % 1000);
  }
  double copy_ns(const graph::Value& value, uint64_t from, uint64_t to) override {
    return std::isfinite(DeviceTarget::copy_ns(value, from, to)) ? 1 : INFINITY;
  }

 private:
  std::mt19937 random_;
};

// Convolutions with the operations that networks have between them.
struct Network {
  explicit Network(int32_t function) {
    Build build(graph);
    build.layer = "net";
    x = test::add_value(graph, "x", ValueKind::kInput, {4, 10, 10, 3}, RT_FLOAT32);
    graph::Convolution same;
    same.padding = {1, 1, 1, 1};
    const auto convolve = [&](ValueId v, int64_t channels, const std::string& name) {
      const int64_t before = graph.value(v).dims[3];
      parameters.push_back(test::add_value(graph, name, ValueKind::kParameter,
                                           {channels, 3, 3, before}, RT_FLOAT32));
      parameters.push_back(
          test::add_value(graph, name + ".bias", ValueKind::kParameter, {channels}, RT_FLOAT32));
      return build.add(build.conv2d(v, parameters[parameters.size() - 2], same), parameters.back());
    };
    // `h` may have every layout, so its readers are queried in all of them.
    ValueId h = convolve(x, 20, "a");
    h = build.activation(convolve(h, 20, "b"), function);
    h = build.activation(build.add(convolve(h, 20, "c"), h), function);
    h = build.avg_pool2d(h, {2, 2, 2, 2, {}});
    y = build.activation(convolve(h, 5, "d"), function);
    graph.value(y).kind = ValueKind::kOutput;
  }
  Graph graph;
  ValueId x, y;
  std::vector<ValueId> parameters;
};

void fill(float* values, int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  }
}

std::vector<float> run(const Network& network, graph::Target& target,
                       const std::shared_ptr<plugins::host::Device>& device) {
  Graph graph = network.graph;
  graph::fuse(graph, target);
  graph::unfuse(graph, target);
  graph::remove_dead_nodes(graph);
  graph::choose_layouts(graph, target);
  Storage storage(device);
  Arena arena(device);
  Program program(std::move(graph), device, storage, arena);
  const auto set = [&](ValueId v) {  // the address is host memory
    fill(static_cast<float*>(program.address(v)), graph::element_count(network.graph.value(v).dims),
         static_cast<uint32_t>(v));
  };
  set(network.x);
  for (const ValueId v : network.parameters) set(v);
  plugins::host::Stream stream = device->create_stream();
  program.run(stream);
  stream.synchronize();
  std::vector<float> y(
      static_cast<size_t>(graph::element_count(network.graph.value(network.y).dims)));
  std::memcpy(y.data(), program.address(network.y), y.size() * sizeof(float));
  return y;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  return test::relative_error({a.begin(), a.end()}, {b.begin(), b.end()});
}

TEST_F(DeviceTargetTest, WhateverIsMeasuredTheNetworkRunsAndAgrees) {
  const auto reference = test::open_device("reference");
  for (const int32_t function :
       {RT_ACTIVATION_RELU, RT_ACTIVATION_GELU, RT_ACTIVATION_TANH, RT_ACTIVATION_SIGMOID}) {
    const Network network(function);
    DeviceTarget exact(reference, {.tune = Tune::kOff});
    const std::vector<float> expected = run(network, exact, reference);
    for (uint32_t seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE("activation " + std::to_string(function) + ", seed " + std::to_string(seed));
      NoisyTarget target(device_, seed);
      std::vector<float> actual;
      ASSERT_NO_THROW(actual = run(network, target, device_));
      EXPECT_LE(distance(actual, expected), 1e-4);
    }
  }
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(DefaultCacheFolder, IsThatOfTheUserAlsoWithoutHome) {
  const Variable no_cache("XDG_CACHE_HOME", nullptr);
  {
    const Variable home("HOME", "/somewhere");
    EXPECT_EQ(default_cache_folder(), "/somewhere/.cache/runtime");
    const Variable cache("XDG_CACHE_HOME", "/elsewhere");
    EXPECT_EQ(default_cache_folder(), "/elsewhere/runtime");
  }
  const Variable no_home("HOME", nullptr);
  const passwd* user = ::getpwuid(::getuid());
  if (user == nullptr) GTEST_SKIP() << "this user is not listed";
  EXPECT_EQ(default_cache_folder(), std::filesystem::path(user->pw_dir) / ".cache" / "runtime");
}

}  // namespace
}  // namespace runtime::exec
