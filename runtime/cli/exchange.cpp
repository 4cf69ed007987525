// The commands import and export.
#include "runtime/exchange/exchange.h"

#include <filesystem>

#include "runtime/cli/commands.h"
#include "runtime/cli/say.h"
#include "runtime/error.h"
#include "runtime/model/layer_types.h"
#include "runtime/train/open_types.h"

namespace runtime::cli {

namespace fs = std::filesystem;

namespace {

std::string described(const exchange::Exchanged& result) {
  return fmt::format("{} tensors with {:.1f} million numbers of a model of type {}{}",
                     result.parameters, static_cast<double>(result.numbers) / 1e6, result.family,
                     result.tokenizer ? ", and its tokenizer" : "");
}

// The file of a run's folder; throws DataError if it is not there.
std::string file_of(const std::string& run, const char* name) {
  const fs::path path = fs::path(run) / name;
  if (fs::exists(path)) return path.string();
  throw DataError(run + ": has no " + name +
                  "; expected the folder of a run that has ended, or of an imported model");
}

}  // namespace

void import_hf(const std::string& folder, const std::string& output) {
  const exchange::Exchanged result = exchange::import_model(folder, output);
  say("{}: {}\n", output, described(result));
  if (result.vectors) {
    return say(
        "next: runtime predict {0}/config.toml --weights {0}/weights.safetensors --data TEXTS.csv, "
        "a "
        "table with the column text\n",
        output);
  }
  say("next: set dataset.path in {0}/config.toml, then: runtime train {0}/config.toml\n", output);
}

void export_hf(const std::string& run, const std::string& output) {
  const config::Config config =
      config::load(file_of(run, "config.toml"), {}, preset_folder(), model::layer_types(),
                   train::find_open_types(host_services()));
  const std::string weights = file_of(run, "weights.safetensors");
  say("{}: {}\n", output, described(exchange::export_model(config, weights, output)));
  say("next: transformers.AutoModelForCausalLM.from_pretrained(\"{}\")\n", output);
}

}  // namespace runtime::cli
