// Runs a model whole and as tensor-parallel ranks, and compares the results.
#include "tests/runtime/parallel/shard_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/graph/autodiff.h"
#include "tests/runtime/exec/local_ranks.h"
#include "tests/runtime/support/devices.h"

namespace runtime::parallel {

using graph::Dims;
using graph::ValueId;
using graph::ValueKind;

namespace {

std::vector<std::byte> to_bytes(const Numbers& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(double));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

Numbers to_numbers(const std::vector<std::byte>& bytes) {
  Numbers numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// The values to read after a run, by name, and for each the parameter that it is shaped like (-1:
// none).
struct Reading {
  ValueId value;
  int parameter;
};

std::map<std::string, Reading> add_backward(TestModel& m) {
  graph::Graph& g = m.graph;
  const ValueId one = test::add_value(g, "one", ValueKind::kState, {1}, m.dtype);
  m.inputs[one] = {1};
  std::map<std::string, Reading> readings;
  for (const auto& [v, gradient] : graph::differentiate(g, m.loss, one, m.trained)) {
    const auto at = std::find(m.parameters.begin(), m.parameters.end(), v) - m.parameters.begin();
    const std::string name = "d " + g.value(v).name;
    readings[name] = {test::add_output(g, gradient, name), static_cast<int>(at)};
  }
  for (size_t i = 0; i < m.parameters.size(); ++i) {
    const graph::Value& v = g.value(m.parameters[i]);
    if (v.kind == ValueKind::kState) readings[v.name] = {m.parameters[i], static_cast<int>(i)};
  }
  if (m.correct != graph::kNone)
    readings["correct"] = {test::add_output(g, m.correct, "correct out"), -1};
  readings["loss"] = {test::add_output(g, m.loss, "loss out"), -1};
  return readings;
}

Numbers initial(const TestModel& m, size_t i, const Dims& dims) {
  const bool statistic = m.graph.value(m.parameters[i]).kind == ValueKind::kState;
  return test::random_numbers(graph::element_count(dims), i + 100, statistic ? 0.5 : -0.7, 1);
}

// Runs the graph, whose parameters are `sharded`; returns the results of this rank.
Results run(TestModel& m, const Sharded& sharded, bool broken, const RunOptions& options,
            exec::Collectives* collectives) {
  const std::map<std::string, Reading> readings = add_backward(m);
  test::GraphRun run(m.graph, test::open_device(options.backend), collectives);
  for (const auto& [v, numbers] : m.inputs) run.set(v, numbers);
  for (size_t i = 0; i < m.parameters.size(); ++i) {
    const ShardedParameter& p = sharded.parameters[i];
    Numbers own = to_numbers(cut(to_bytes(initial(m, i, p.dims)), p.dims, p.split));
    if (broken && !p.split.is_whole()) {
      own.back() += 1e-6;
      broken = false;
    }
    run.set(m.parameters[i], own);
  }
  run.run();
  Results results;
  for (const auto& [name, reading] : readings) results[name] = run.get(reading.value);
  return results;
}

std::map<std::string, int> parameters_of(TestModel& m) {
  std::map<std::string, int> of;
  for (const auto& [name, reading] : add_backward(m)) of[name] = reading.parameter;
  return of;
}

}  // namespace

ValueId TestModel::parameter(const std::string& name, Dims dims, bool is_trained) {
  parameters.push_back(test::add_value(
      graph, name, is_trained ? ValueKind::kParameter : ValueKind::kState, std::move(dims), dtype));
  if (is_trained) trained.push_back(parameters.back());
  return parameters.back();
}

ValueId TestModel::input(const std::string& name, Dims dims, rt_dtype type, Numbers numbers) {
  const ValueId v = test::add_value(graph, name, ValueKind::kInput, std::move(dims), type);
  inputs[v] = std::move(numbers);
  return v;
}

ValueId TestModel::features(Dims dims) {
  const int64_t count = graph::element_count(dims);
  return input("features", std::move(dims), dtype, test::random_numbers(count, 1));
}

ValueId TestModel::whole_numbers(const std::string& name, Dims dims, int64_t below) {
  const int64_t count = graph::element_count(dims);
  Numbers numbers = test::random_numbers(count, 2, 0, static_cast<double>(below));
  for (double& x : numbers) x = std::floor(x);
  return input(name, std::move(dims), RT_INT32, std::move(numbers));
}

ValueId TestModel::weights(Dims dims) {
  const int64_t count = graph::element_count(dims);
  Numbers numbers(count, 1.0 / static_cast<double>(count));
  numbers[1] = 0;
  return input("weight", std::move(dims), dtype, std::move(numbers));
}

ValueId TestModel::linear(const std::string& layer, ValueId x, int64_t features) {
  build.layer = layer;
  const int64_t in = graph.value(x).dims.back();
  const ValueId w = parameter(layer + ".weight", {features, in});
  const ValueId b = parameter(layer + ".bias", {features});
  return build.add(build.matmul(x, w, false, true), b);
}

ValueId TestModel::convolution(const std::string& layer, ValueId x, int64_t channels,
                               int64_t groups, bool bias) {
  build.layer = layer;
  graph::Convolution c;
  c.groups = groups;
  c.padding = {1, 1, 1, 1};
  const int64_t in = graph.value(x).dims.back() / groups;
  const ValueId w = parameter(layer + ".weight", {channels, 3, 3, in});
  x = build.conv2d(x, w, c);
  return bias ? build.add(x, parameter(layer + ".bias", {channels})) : x;
}

ValueId TestModel::layer_norm(const std::string& layer, ValueId x) {
  build.layer = layer;
  const int64_t d = graph.value(x).dims.back();
  const ValueId gamma = parameter(layer + ".weight", {d}), beta = parameter(layer + ".bias", {d});
  return build.layer_norm(x, gamma, beta, 1e-5);
}

ValueId TestModel::batch_norm(const std::string& layer, ValueId x, ValueId weight) {
  build.layer = layer;
  const int64_t c = graph.value(x).dims.back();
  const ValueId gamma = parameter(layer + ".weight", {c}), beta = parameter(layer + ".bias", {c});
  const ValueId mean = parameter(layer + ".running_mean", {c}, false),
                var = parameter(layer + ".running_var", {c}, false);
  if (weight == graph::kNone) return build.batch_norm(x, gamma, beta, mean, var, 1e-5, 0.1);
  return build.batch_norm_in_parts(x, weight, gamma, beta, mean, var, 1e-5, 0.1);
}

ValueId TestModel::dropout(const std::string& layer, ValueId x) {
  if (step_ == graph::kNone) {
    step_ = input("step", {1}, RT_INT64, {3});
    base_ = input("sample_base", {1}, RT_INT64, {40});
  }
  build.layer = layer;
  return build.dropout(x, step_, base_, 0.25, 77, static_cast<int64_t>(layer.size()));
}

Results run_whole(const Make& make, const RunOptions& options) {
  TestModel m(options.dtype);
  make(m);
  Sharded whole;
  for (ValueId v : m.parameters) whole.parameters.push_back({m.graph.value(v).dims, {}});
  return run(m, whole, false, options, nullptr);
}

Results run_split(const Make& make, int ranks, const RunOptions& options) {
  std::vector<Results> own(ranks);
  Sharded of_last;
  const std::vector<std::string> errors = exec::on_local_ranks(ranks, [&](exec::LocalRank& local) {
    TestModel m(options.dtype);
    make(m);
    const Sharded sharded = shard(m.graph, m.parameters, {local.rank, ranks, 0, options.hints});
    own[local.rank] =
        run(m, sharded, local.rank == options.broken_rank, options, &local.collectives);
    if (local.rank == ranks - 1) of_last = sharded;
  });
  for (const std::string& message : errors) EXPECT_EQ(message, "");
  if (of_last.parameters.empty()) return {};
  TestModel m(options.dtype);
  make(m);
  Results joined;
  for (const auto& [name, parameter] : parameters_of(m)) {
    const ShardedParameter p =
        parameter < 0 ? ShardedParameter{{1}, {}} : of_last.parameters[parameter];
    std::vector<std::vector<std::byte>> parts;
    for (const Results& r : own) {
      parts.push_back(to_bytes(r.at(name)));
      if (p.split.is_whole() && options.broken_rank < 0) {
        EXPECT_EQ(parts.back(), parts[0]) << name;
      }
    }
    joined[name] = to_numbers(join(parts, p.dims, p.split));
  }
  return joined;
}

double error(const Results& actual, const Results& expected) {
  double largest = actual.size() == expected.size() ? 0 : INFINITY;
  for (const auto& [name, numbers] : expected) {
    const auto it = actual.find(name);
    const double e = it == actual.end() ? INFINITY : test::relative_error(it->second, numbers);
    // NaN counts as an error too.
    if (!(e <= largest)) largest = std::isnan(e) ? INFINITY : e;
  }
  return largest;
}

Built build_split(const Make& make, const ShardOptions& options, bool backward) {
  TestModel m(RT_FLOAT64);
  make(m);
  Built built;
  built.sharded = shard(m.graph, m.parameters, options);
  if (backward) add_backward(m);
  built.graph = std::move(m.graph);
  return built;
}

int starts(const graph::Graph& graph, graph::Phase phase) {
  return static_cast<int>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& n) {
        return n.collective && !n.collective->wait && n.phase == phase;
      }));
}

}  // namespace runtime::parallel
