// Texts of configurations with random numbers in them.
#include "tests/runtime/train/random_meshes.h"

#include "runtime/train/open.h"

namespace runtime::train {
namespace {

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

}  // namespace

std::string random_net(Random& r) { return RandomNet(r).toml(); }

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

RandomMesh::RandomMesh(Random& r) {
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
              {"parallelism.zero_stage", std::to_string(r.number(0, 3))},
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
  settings.push_back({"parallelism.zero_stage", std::to_string(r.number(1, 3))});
  settings.push_back({"parallelism.zero_ranks", "2"});
}

graph::Graph program_of(const config::Config& config, const PlannedRank& rank,
                        step::Purpose purpose,
                        const std::shared_ptr<plugins::host::Device>& device) {
  const data::SampleSpec spec = open_data(config, nullptr).train->spec();
  StepPrograms programs(RankSetup(config, spec, device, {{.tune = exec::Tune::kOff}}, rank));
  if (purpose == step::Purpose::kTraining)
    return programs.compiled(full_step(programs).at(0)).program->graph();
  const int64_t rows = purpose == step::Purpose::kEvaluation ? 3 : programs.setup().nominal_rows();
  return programs.compiled(programs.setup().whole(purpose, rows)).program->graph();
}

}  // namespace runtime::train
