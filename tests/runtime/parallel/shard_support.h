// Small models made by hand, with their losses and gradients: on one rank, and over tensor-parallel
// ranks that are threads.
#ifndef TESTS_RUNTIME_PARALLEL_SHARD_SUPPORT_H_
#define TESTS_RUNTIME_PARALLEL_SHARD_SUPPORT_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/graph/build.h"
#include "runtime/parallel/shard.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::parallel {

using test::Numbers;

// A forward graph with its loss.
struct TestModel {
  graph::Graph graph;
  graph::Build build{graph};
  rt_dtype dtype = RT_FLOAT64;
  std::vector<graph::ValueId> parameters;  // trained ones first, then statistics
  std::vector<graph::ValueId> trained;
  std::map<graph::ValueId, Numbers> inputs;
  graph::ValueId loss = graph::kNone, correct = graph::kNone;  // kNone: not computed

  explicit TestModel(rt_dtype type) : dtype(type) {}
  TestModel(const TestModel&) = delete;
  TestModel& operator=(const TestModel&) = delete;

  graph::ValueId parameter(const std::string& name, graph::Dims dims, bool is_trained = true);
  graph::ValueId input(const std::string& name, graph::Dims dims, rt_dtype type, Numbers numbers);
  // Random numbers in [-1, 1).
  graph::ValueId features(graph::Dims dims);
  // Random integers in [0, below).
  graph::ValueId whole_numbers(const std::string& name, graph::Dims dims, int64_t below);
  // The weights of as many rows as `dims` has; one row is padding.
  graph::ValueId weights(graph::Dims dims);

  // x W^T + b, with the names that a layer of a network has.
  graph::ValueId linear(const std::string& layer, graph::ValueId x, int64_t features);
  graph::ValueId convolution(const std::string& layer, graph::ValueId x, int64_t channels,
                             int64_t groups = 1, bool bias = true);
  graph::ValueId layer_norm(const std::string& layer, graph::ValueId x);
  graph::ValueId batch_norm(const std::string& layer, graph::ValueId x, graph::ValueId weight);
  graph::ValueId dropout(const std::string& layer, graph::ValueId x);

 private:
  graph::ValueId step_ = graph::kNone, base_ = graph::kNone;
};

using Make = std::function<void(TestModel&)>;

// Loss, number of correct answers, all gradients and statistics by name, as whole tensors.
using Results = std::map<std::string, Numbers>;

struct RunOptions {
  std::string backend = "reference";
  rt_dtype dtype = RT_FLOAT64;
  std::map<std::string, std::string> hints = {};
  int broken_rank = -1;  // one number of its slice of the first split parameter is changed
};

Results run_whole(const Make& make, const RunOptions& options = {});
// Fails unless all ranks have the same values of tensors that are not split.
Results run_split(const Make& make, int ranks, const RunOptions& options = {});

// The largest relative error by norm; infinite if the names differ.
double error(const Results& actual, const Results& expected);

// The tensor-parallel graph of one rank, with or without its backward pass.
struct Built {
  Sharded sharded;
  graph::Graph graph;
};
Built build_split(const Make& make, const ShardOptions& options, bool backward);
int starts(const graph::Graph& graph, graph::Phase phase);

}  // namespace runtime::parallel

#endif  // TESTS_RUNTIME_PARALLEL_SHARD_SUPPORT_H_
