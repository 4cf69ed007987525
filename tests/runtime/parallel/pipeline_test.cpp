// A step that is cut into stages gives the loss and the gradients of the whole step, with ranks as
// threads over the communicator `local`, on the device `reference`, in float64.
#include "runtime/parallel/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/exec/device_target.h"
#include "runtime/exec/program.h"
#include "runtime/graph/fuse.h"
#include "tests/runtime/exec/local_ranks.h"
#include "tests/runtime/parallel/pipeline_step.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::parallel {
namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;
using test::Numbers;

const auto* const kGpipe = schedule_kind("gpipe");
const auto* const k1f1b = schedule_kind("1f1b");
const auto* const kInterleaved = schedule_kind("interleaved");
constexpr int64_t kRows = 3;  // rows of a micro-batch

struct Result {
  double loss = 0;
  std::vector<Numbers> gradients;  // by parameter; empty if this rank does not have the parameter
};

size_t count(const Graph& graph, ValueId v) {
  return static_cast<size_t>(graph::element_count(graph.value(v).dims));
}

Numbers parameter_numbers(const Step& step, size_t i) {
  return test::random_numbers(count(step.graph, step.parameters[i]), 100 + i, -0.7, 0.7);
}

// Samples first..first+rows-1, all with the same weight.
struct Batch {
  Numbers features, target, weight;

  Batch(Net net, int64_t first, int64_t rows, int64_t all) {
    for (int64_t i = first; i < first + rows; ++i) {
      const auto append = [&](Numbers& to, const Numbers& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(features, test::random_numbers(net == Net::kMlp ? 5 : 50, 10 + i));
      if (net == Net::kMlp) append(target, test::random_numbers(3, 500 + i));
      if (net != Net::kMlp) target.push_back(static_cast<double>(i % 4));
      weight.push_back(1.0 / static_cast<double>(all));
    }
  }
};

// The result of the whole step on samples first..first+rows-1 of `all`.
Result whole(Net net, int64_t first, int64_t rows, int64_t all) {
  const double share = static_cast<double>(rows) / static_cast<double>(all);
  Step step = make_step(net, rows, share);
  std::vector<ValueId> outputs;
  for (ValueId p : step.parameters)
    outputs.push_back(
        test::add_output(step.graph, step.gradients.at(p), step.graph.value(p).name + ".out"));
  test::GraphRun run(step.graph, test::open_device("reference"));
  const Batch batch(net, first, rows, all);
  run.set(step.inputs.features, batch.features);
  run.set(step.inputs.target, batch.target);
  run.set(step.inputs.weight, batch.weight);
  run.set(step.one, {1});
  for (size_t i = 0; i < step.parameters.size(); ++i)
    run.set(step.parameters[i], parameter_numbers(step, i));
  run.run();
  Result result{run.get(step.loss)[0], {}};
  for (ValueId v : outputs) result.gradients.push_back(run.get(v));
  return result;
}

// One micro-batch at a time, because batch normalisation uses the statistics of a micro-batch.
Result whole(Net net, int micro_batches) {
  const int64_t all = kRows * micro_batches;
  if (net != Net::kNorm) return whole(net, 0, all, all);
  Result sum = whole(net, 0, kRows, all);
  for (int64_t first = kRows; first < all; first += kRows) {
    const Result part = whole(net, first, kRows, all);
    sum.loss += part.loss;
    for (size_t i = 0; i < sum.gradients.size(); ++i)
      std::transform(sum.gradients[i].begin(), sum.gradients[i].end(), part.gradients[i].begin(),
                     sum.gradients[i].begin(), std::plus<>());
  }
  return sum;
}

// The program of one rank.
class RankRun {
 public:
  using Change = std::function<void(Graph&)>;  // changes the unrolled graph

  // `data` is the index of the pipeline.
  RankRun(RankStep& step, exec::Collectives& collectives, const Change& change, int data = 0)
      : step_(step),
        data_(data),
        device_(test::open_device("reference")),
        stream_(device_->create_stream()),
        storage_(device_),
        arena_(device_) {
    Graph graph = step.step.graph;
    exec::DeviceTarget target(device_, {.tune = exec::Tune::kOff});
    graph::fit_to_device(graph, target);
    step_.values =
        distribute(graph, step_.buffers, step_.step.inputs,
                   {.rank = data_, .world_size = step_.data, .pipeline = &step_.pipeline});
    if (change) change(graph);
    program_ = std::make_unique<exec::Program>(std::move(graph), device_, storage_, arena_,
                                               exec::CompileOptions{.collectives = &collectives});
  }

  Result run(Net net) {
    const Step& step = step_.step;
    const auto shards = static_cast<int64_t>(step_.values.shards.size());
    for (int64_t m = 0; m < shards; ++m) {
      const Batch batch(net, (data_ * shards + m) * kRows, kRows, shards * step_.data * kRows);
      write(step_.values.shards[m].features, batch.features);
      write(step_.values.shards[m].target, batch.target);
      write(step_.values.shards[m].weight, batch.weight);
    }
    if (step.one != kNone) write(step.one, {1});
    for (size_t i = 0; i < step.parameters.size(); ++i) {
      if (is_read(step.graph, step.parameters[i]))
        write(step.parameters[i], parameter_numbers(step, i));
    }
    program_->run(stream_);
    stream_.synchronize();
    Result result{read(step_.values.loss, 1)[0], {}};
    for (ValueId g : step_.gradients)
      result.gradients.push_back(g == kNone ? Numbers{} : read(g, count(step.graph, g)));
    return result;
  }

  uint64_t arena_bytes() const { return program_->memory().arena; }

 private:
  void write(ValueId v, const Numbers& numbers) {
    void* const to = v == kNone ? nullptr : program_->address(v);
    if (to == nullptr) return;
    std::vector<int32_t> labels(numbers.begin(), numbers.end());
    const bool is_int = program_->graph().value(v).dtype == RT_INT32;
    stream_.copy(to, is_int ? static_cast<const void*>(labels.data()) : numbers.data(),
                 numbers.size() * (is_int ? sizeof(int32_t) : sizeof(double)));
    stream_.synchronize();
  }

  Numbers read(ValueId v, size_t size) {
    Numbers numbers(size);
    stream_.copy(numbers.data(), program_->address(v), size * sizeof(double));
    stream_.synchronize();
    return numbers;
  }

  RankStep& step_;
  int data_;
  std::shared_ptr<plugins::host::Device> device_;
  plugins::host::Stream stream_;
  exec::Storage storage_;
  exec::Arena arena_;
  std::unique_ptr<exec::Program> program_;
};

std::vector<Result> pipelined(Net net, const ScheduleOptions& options,
                              const RankRun::Change& change = nullptr) {
  std::vector<Result> results(options.ranks);
  const auto errors = exec::on_local_ranks(options.ranks, [&](exec::LocalRank& local) {
    RankStep step(net, kRows, options, local.rank);
    results[local.rank] = RankRun(step, local.collectives, change).run(net);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return results;
}

// The largest relative error of the loss on any rank, and of any gradient on any rank that has it;
// infinite if no rank has a gradient.
double error(const std::vector<Result>& ranks, const Result& expected) {
  double largest = 0;
  for (const Result& r : ranks)
    largest = std::max(largest, std::abs(r.loss - expected.loss) / std::abs(expected.loss));
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    int holders = 0;
    for (const Result& r : ranks) {
      if (r.gradients.size() <= i || r.gradients[i].empty()) continue;
      ++holders;
      largest = std::max(largest, test::relative_error(r.gradients[i], expected.gradients[i]));
    }
    if (holders == 0) return INFINITY;
  }
  return largest;
}

class Pipelines : public testing::TestWithParam<std::tuple<Net, ScheduleOptions>> {};

TEST_P(Pipelines, EqualTheWholeStep) {
  const auto& [net, options] = GetParam();
  EXPECT_LT(error(pipelined(net, options), whole(net, options.micro_batches)), 1e-12);
}

std::string name_of(const testing::TestParamInfo<std::tuple<Net, ScheduleOptions>>& info) {
  const auto& [net, o] = info.param;
  const char* const kinds[] = {"Gpipe", "OneForwardOneBackward", "Interleaved"};
  const char* const nets[] = {"Mlp", "Conv", "Norm"};
  return std::string(nets[static_cast<int>(net)]) + kinds[o.kind - schedule_kinds().data()] +
         std::to_string(o.ranks) + "Ranks" + std::to_string(o.micro_batches) + "Batches";
}

const ScheduleOptions kOptions[] = {{kGpipe, 1, 2},          {kGpipe, 2, 4},         {kGpipe, 4, 4},
                                    {k1f1b, 2, 4},           {k1f1b, 4, 4},          {k1f1b, 3, 1},
                                    {kInterleaved, 2, 4, 2}, {kInterleaved, 2, 2, 3}};

INSTANTIATE_TEST_SUITE_P(All, Pipelines,
                         testing::Combine(testing::Values(Net::kMlp, Net::kConv, Net::kNorm),
                                          testing::ValuesIn(kOptions)),
                         name_of);

// Removes the last addition to a gradient: that of a micro-batch, or for tied weights that of the
// other rank.
void forget_one(Graph& graph) {
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& n = graph.nodes[i];
    const bool into_gradients =
        n.op == RT_OP_COPY && graph.value(graph.storage(n.outputs[0])).name == "gradients";
    if (!into_gradients || graph.nodes[i - 1].op != RT_OP_ADD) continue;
    graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(i) - 1,
                      graph.nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return;
  }
  FAIL() << "nothing is added up";
}

TEST(Pipeline, AForgottenMicroBatchIsNoticed) {
  for (const Net net : {Net::kMlp, Net::kConv})
    EXPECT_GT(error(pipelined(net, {k1f1b, 2, 4}, forget_one), whole(net, 4)), 1e-3);
}

TEST(Pipeline, TwoPipelinesShareABatch) {
  const Mesh mesh{.data = 2, .pipeline = 2};
  std::vector<Result> results(mesh.size());
  const auto errors = exec::on_local_ranks(mesh.size(), [&](exec::LocalRank& local) {
    const MeshPlace place = mesh.place_of(local.rank);
    const auto job = local.collectives.communicator(0);
    const auto axis = [&](int color, int key) {
      return job->split(color, key, std::chrono::seconds(30));
    };
    const auto data = axis(place.pipeline, place.data),
               statistics = axis(place.pipeline, place.data),
               pipeline = axis(place.data, place.pipeline);
    watch::FlightRecorder recorder(local.rank);
    exec::Collectives collectives({data, statistics, nullptr, pipeline}, place.data, mesh.data,
                                  recorder, local.watchdog, false);
    RankStep step(Net::kMlp, kRows, {k1f1b, 2, 3}, place.pipeline, mesh.data);
    results[local.rank] = RankRun(step, collectives, nullptr, place.data).run(Net::kMlp);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  EXPECT_LT(error(results, whole(Net::kMlp, 6)), 1e-12);
}

TEST(Pipeline, AnEvaluationGivesTheLossToAllRanks) {
  const std::vector<Result> ranks = pipelined(Net::kMlp, {kInterleaved, 2, 3, 2, false});
  const double expected = whole(Net::kMlp, 3).loss;
  for (const Result& r : ranks) EXPECT_NEAR(r.loss, expected, 1e-12 * expected);
}

TEST(Pipeline, EveryParameterIsOnOneRankAndTiedOnesOnTwo) {
  const std::vector<Result> ranks = pipelined(Net::kMlp, {k1f1b, 4, 4});
  const Step step = make_step(Net::kMlp, 1, 1, false);
  for (size_t i = 0; i < step.parameters.size(); ++i) {
    const auto has = [&](const Result& r) { return !r.gradients[i].empty(); };
    EXPECT_EQ(std::count_if(ranks.begin(), ranks.end(), has),
              step.graph.value(step.parameters[i]).name == "tied" ? 2 : 1);
  }
}

// The memory planner uses that this schedule keeps fewer micro-batches.
TEST(Pipeline, OneForwardOneBackwardTakesLessMemoryThanGpipe) {
  const auto arena = [](const ScheduleKind* kind) {
    uint64_t bytes = 0;
    exec::on_local_ranks(2, [&](exec::LocalRank& local) {
      RankStep step(Net::kConv, kRows, {kind, 2, 8}, local.rank);
      RankRun run(step, local.collectives, nullptr);
      if (local.rank == 1) bytes = run.arena_bytes();
    });
    return bytes;
  };
  EXPECT_LT(2 * arena(k1f1b), arena(kGpipe));
}

}  // namespace
}  // namespace runtime::parallel
