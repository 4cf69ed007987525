// Compiles the programs of all ranks of random meshes and simulates them together: their
// collectives must complete, however the model and the batch are split. Programs run only in tests
// that say so.
#include "tests/runtime/parallel/collective_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "runtime/error.h"
#include "runtime/parallel/efficiency.h"
#include "runtime/step/ranks.h"
#include "runtime/train/open.h"
#include "runtime/train/rank/step_programs.h"
#include "tests/runtime/train/mesh_nets.h"

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

class Random {
 public:
  explicit Random(int seed) : engine_(seed) {}
  int number(int from, int to) { return from + static_cast<int>(engine_() % (to - from + 1)); }
  bool chance(int percent) { return number(1, 100) <= percent; }
  std::string one_of(const std::vector<std::string>& list) {
    return list[number(0, static_cast<int>(list.size()) - 1)];
  }

 private:
  std::mt19937 engine_;
};

// Convolutions whose few channels need not divide evenly among the ranks, around residual
// connections.
class RandomNet {
 public:
  explicit RandomNet(Random& random) : r_(random) {}

  std::string toml() {
    std::string text;
    int width = 4;
    const int layers = r_.number(4, 9);
    for (int i = 0; i < layers; ++i) text += layer(width);
    return "[model]\ninput = [4, 5, 6]\nlayers = [\n" + text +
           "  { type = \"global_avg_pool\" },\n  { type = \"linear\", features = " +
           std::to_string(r_.number(4, 7)) + ", activation = \"tanh\" },\n" +
           "  { type = \"linear\", features = 4 },\n]\n" + kData;
  }

 private:
  std::string layer(int& width) {
    switch (r_.number(0, 6)) {
      case 0:
        return "  { type = \"residual\", layers = [\n  " + conv(width) + "  " + conv(width) +
               "  ], shortcut = [\n  " + conv(width) + "  ], activation = \"tanh\" },\n";
      case 1:
        return "  { type = \"residual\", layers = [\n  " + conv(width) + "  ] },\n";
      case 2:
        return "  { type = \"dropout\", probability = 0.1 },\n";
      case 3:
        return "  { type = \"sigmoid\" },\n";
      case 4:
        return "  { type = \"batch_norm\" },\n";
      default:
        width = r_.number(3, 7);
        return conv(width);
    }
  }

  std::string conv(int width) {
    const std::string shard = r_.one_of({"auto", "auto", "auto", "column", "none"});
    const std::string size = r_.one_of({"1", "3", "5"});
    return "  { type = \"conv2d\", channels = " + std::to_string(width) + ", kernel = " + size +
           ", padding = \"same\", shard = \"" + shard + "\" },\n";
  }

  Random& r_;
};

// A GPT of random depth, whose heads and vocabulary need not divide evenly among the ranks; its
// first and last stage share a matrix.
std::string random_gpt(Random& r, const std::string& text_file) {
  const int heads = r.number(1, 4), width = 2 * heads;
  const auto linear = [&](const std::string& name, int features) {
    return "{ type = \"linear\", name = \"" + name + "\", features = " + std::to_string(features) +
           ", shard = \"" + r.one_of({"auto", "auto", "auto", "none"}) + "\" }";
  };
  const std::string features = std::to_string(width), vocabulary = std::to_string(r.number(9, 11));
  return "[model]\ninput = [6]\nlayers = [\n"
         "  { type = \"embedding\", name = \"wte\", vocabulary = " +
         vocabulary + ", features = " + features +
         " },\n"
         "  { type = \"position_embedding\", name = \"wpe\", length = 6 },\n"
         "  { type = \"block\", name = \"h\", repeat = " +
         std::to_string(r.number(2, 5)) +
         ", layers = [\n"
         "    { type = \"residual\", prefix = false, layers = [ { type = \"layer_norm\" },\n     "
         " " +
         linear("c_attn", 3 * width) +
         ", { type = \"attention\", heads = " + std::to_string(heads) +
         ", causal = true },\n      " + linear("c_proj", width) +
         " ] },\n"
         "    { type = \"residual\", prefix = false, layers = [\n      " +
         linear("c_fc", r.number(3, 9)) + ", { type = \"dropout\", probability = 0.1 },\n      " +
         linear("c_proj2", width) +
         " ] },\n  ] },\n"
         "  { type = \"layer_norm\" },\n"
         "  { type = \"linear\", features = " +
         vocabulary + ", bias = false" + r.one_of({"", ", tie = \"wte\""}) +
         " },\n]\n"
         "[training]\ndtype = \"float64\"\n[dataset]\nformat = \"text\"\ntokenizer = "
         "\"char\"\npath = \"" +
         text_file + "\"\n";
}

struct RandomMesh {
  parallel::Mesh mesh;
  Settings settings;

  explicit RandomMesh(Random& r) {
    mesh.tensor = r.number(1, 3);
    mesh.pipeline = r.number(2, 4);
    mesh.data = r.number(1, 2);
    const std::string schedule = r.one_of({"gpipe", "1f1b", "interleaved"});
    const int micro_batches =
        schedule == "interleaved" ? mesh.pipeline * r.number(1, 2) : r.number(1, 5);
    settings = {{"parallelism.tensor", std::to_string(mesh.tensor)},
                {"parallelism.pipeline", std::to_string(mesh.pipeline)},
                {"parallelism.pipeline_schedule", '"' + schedule + '"'},
                {"parallelism.microbatches", std::to_string(micro_batches)},
                {"parallelism.zero_stage", std::to_string(r.number(0, 1))},
                {"training.global_batch_size", std::to_string(r.number(2, 25))},
                {"training.max_norm", r.one_of({"0.0", "1.0"})},
                {"training.recompute", r.one_of({"\"none\"", "\"blocks\""})},
                {"parallelism.sync_batch_norm", r.one_of({"true", "false"})},
                {"comm.overlap", r.one_of({"true", "false"})},
                {"comm.bucket_mb", r.one_of({"0.0005", "25.0"})}};
    if (r.number(1, 5) > 1) return;
    mesh.data = 4;
    mesh.zero_ranks = 2;
    settings.push_back({"training.global_batch_size", std::to_string(r.number(4, 25))});
    settings.push_back({"parallelism.zero_stage", "1"});
    settings.push_back({"parallelism.zero_ranks", "2"});
  }
};

// The program of one rank, planned without any other rank.
graph::Graph plan(const config::Config& config, const PlannedRank& rank, step::Purpose purpose,
                  const std::shared_ptr<plugins::host::Device>& device) {
  const data::SampleSpec spec = open_data(config, nullptr).train->spec();
  StepPrograms programs(RankSetup(config, spec, device, {{.tune = exec::Tune::kOff}}, rank));
  if (purpose == step::Purpose::kTraining)
    return programs.compiled(full_step(programs).at(0)).program->graph();
  const int64_t rows = purpose == step::Purpose::kEvaluation ? 3 : programs.setup().nominal_rows();
  return programs.compiled(programs.setup().whole(purpose, rows)).program->graph();
}

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
      graphs.push_back(plan(config, {r, mesh.size()}, purpose, device));
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
        seed % 3 == 2 ? random_gpt(random, text_file.path()) : RandomNet(random).toml();
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
