// Compiles the programs of all ranks of random meshes and simulates them together: their
// collectives must complete, however the model and the batch are split. Programs run only in tests
// that say so.
#include "tests/runtime/parallel/collective_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "runtime/parallel/efficiency.h"
#include "runtime/step/ranks.h"
#include "tests/runtime/train/random_meshes.h"

namespace runtime::train {
namespace {

// Two tensor-parallel ranks split 3 channels, so that one has twice as many as the other and
// another cut into stages is best for it. Some layers are split, others are not.
const std::string kUneven = R"(
[model]
input = [5, 3, 12]
layers = [
  { type = "conv2d", channels = 3, kernel = 7, padding = "same", shard = "column" },
  { type = "avg_pool2d", kernel = 3 },
  { type = "conv2d", channels = 3, kernel = 3, padding = 2 },
  { type = "sigmoid" },
  { type = "residual", activation = "tanh", layers = [
      { type = "conv2d", channels = 5, kernel = [1, 5], padding = 2, bias = false, shard = "none" },
      { type = "conv2d", channels = 1, kernel = [3, 5], padding = 2, activation = "tanh" },
      { type = "conv2d", channels = 3, kernel = [7, 1], shard = "none" } ], shortcut = [
      { type = "layer_norm", activation = "gelu_tanh" },
      { type = "conv2d", channels = 3, kernel = 3, padding = "same", groups = 3 } ] },
  { type = "global_avg_pool" },
  { type = "linear", features = 4 },
]
)" + kData;

// Two data-parallel ranks split 5 samples in 2 micro-batches, so that one rank computes 2 samples
// at once and the other 1. Both spend the same time on the parameters of a layer, so that again the
// best cuts differ.
const std::string kUnevenBatch = R"(
[model]
input = [4, 5, 6]
layers = [
  { type = "conv2d", channels = 6, kernel = 5, padding = "same" },
  { type = "conv2d", channels = 3, kernel = 1 },
  { type = "residual", layers = [ { type = "conv2d", channels = 3, kernel = 3, padding = "same" } ] },
  { type = "sigmoid" },
  { type = "conv2d", channels = 5, kernel = 5, padding = "same" },
  { type = "residual", layers = [ { type = "conv2d", channels = 5, kernel = 3, padding = "same" } ] },
  { type = "global_avg_pool" },
  { type = "linear", features = 4, activation = "tanh" },
  { type = "linear", features = 4 },
]
)" + kData;

const std::string kUnevenBatchOfDropouts = R"(
[model]
input = [4, 5, 6]
layers = [
  { type = "dropout", probability = 0.1 },
  { type = "sigmoid" },
  { type = "dropout", probability = 0.1 },
  { type = "sigmoid" },
  { type = "dropout", probability = 0.1 },
  { type = "sigmoid" },
  { type = "conv2d", channels = 3, kernel = 1 },
  { type = "residual", layers = [ { type = "conv2d", channels = 3, kernel = 5, padding = "same" } ] },
  { type = "conv2d", channels = 5, kernel = 3, padding = "same" },
  { type = "global_avg_pool" },
  { type = "linear", features = 6, activation = "tanh" },
  { type = "linear", features = 4 },
]
)" + kData;

enum class Outcome { kCompletes, kRefused, kFails };

struct Result {
  Outcome outcome = Outcome::kCompletes;
  std::string why = {};
};

// All ranks must refuse a mesh that is not possible; otherwise the others would wait for those that
// refuse.
Result play(const config::Config& config, const parallel::Mesh& mesh, step::Purpose purpose,
            const std::string& backend) {
  const auto device = test::open_device(backend);
  std::vector<graph::Graph> graphs;
  std::string refusals;
  int refused = 0;
  for (int r = 0; r < mesh.size(); ++r) {
    try {
      graphs.push_back(program_of(config, {r, mesh.size()}, purpose, device));
    } catch (const ConfigurationError& error) {
      ++refused;
      refusals += "rank " + std::to_string(r) + " refuses: " + error.what() + "\n";
    }
  }
  if (refused == mesh.size()) return {Outcome::kRefused, refusals};
  if (refused > 0) return {Outcome::kFails, refusals};
  const std::string deadlock = parallel::find_deadlock(graphs, mesh);
  return {deadlock.empty() ? Outcome::kCompletes : Outcome::kFails, deadlock};
}

Result play(const std::string& toml, const parallel::Mesh& mesh, const Settings& settings,
            const std::string& backend) {
  const config::Config config = step::resolve_ranks(test::parse(toml, settings), mesh.size());
  for (const step::Purpose purpose :
       {step::Purpose::kTraining, step::Purpose::kGradients, step::Purpose::kEvaluation}) {
    Result result = play(config, mesh, purpose, backend);
    if (result.outcome != Outcome::kCompletes) return result;
  }
  return {};
}

std::string text(const Settings& settings) {
  std::string list;
  for (const config::Override& o : settings) list += " " + o.key + "=" + o.value;
  return list;
}

class CollectiveOrder : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!test::has_backend(GetParam())) GTEST_SKIP() << GetParam() << " was not built";
  }
};

INSTANTIATE_TEST_SUITE_P(Backend, CollectiveOrder, testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

TEST_P(CollectiveOrder, CompletesOnRandomMeshes) {
  const bool on_cpu = GetParam() == "cpu";
  const int cases = on_cpu ? 20 : 120;
  const GptFile text_file;
  int complete = 0;
  for (int seed = 0; seed < cases; ++seed) {
    Random random(seed);
    const std::string toml =
        seed % 3 == 2 ? random_gpt(random, text_file.path()) : random_net(random);
    const RandomMesh m(random);
    const Settings settings = m.settings + (on_cpu ? kFloat32 : Settings{});
    const Result result = play(toml, m.mesh, settings, GetParam());
    EXPECT_NE(result.outcome, Outcome::kFails)
        << "seed " << seed << ", " << parallel::to_string(m.mesh) << text(settings) << "\n"
        << toml << result.why;
    complete += result.outcome == Outcome::kCompletes;
  }
  EXPECT_GT(complete, cases / 2) << "most random meshes are refused";
}

struct Uneven {
  const char* name;
  std::string toml;
  parallel::Mesh mesh;
  int batch;
  Settings schedule = {};

  Settings common() const {
    return {{"training.global_batch_size", std::to_string(batch)}, {"comm.timeout_s", "20"}};
  }
  Settings settings() const {
    return common() + train::mesh(mesh.tensor, mesh.pipeline) +
           Settings{{"parallelism.microbatches", "2"}} + schedule;
  }
};

class UnevenParts : public testing::TestWithParam<Uneven> {};

INSTANTIATE_TEST_SUITE_P(
    Of, UnevenParts,
    testing::Values(Uneven{"Layers", kUneven, {1, 2, 4}, 8},
                    Uneven{"LayersGpipe", kUneven, {1, 2, 4}, 8, kGpipe},
                    Uneven{"BatchInterleaved", kUnevenBatch, {2, 1, 2}, 5, kInterleaved},
                    Uneven{"Batch", kUnevenBatchOfDropouts, {2, 1, 3}, 5}),
    [](const auto& info) { return info.param.name; });

TEST_P(UnevenParts, Complete) {
  for (const std::string backend : {"reference", "cpu"}) {
    if (!test::has_backend(backend)) continue;
    const Settings type = backend == "cpu" ? kFloat32 : Settings{};
    const Result result =
        play(GetParam().toml, GetParam().mesh, GetParam().settings() + type, backend);
    EXPECT_EQ(result.outcome, Outcome::kCompletes) << result.why;
  }
}

TEST_P(UnevenParts, EqualOneRank) {
  const Trace one = trace(GetParam().toml, 1, 3, GetParam().common());
  const Trace all = trace(GetParam().toml, GetParam().mesh.size(), 3, GetParam().settings());
  const Difference d = largest_difference(all, one);
  EXPECT_LT(d.relative, kFloat64Tolerance) << d.name;
}

}  // namespace
}  // namespace runtime::train
