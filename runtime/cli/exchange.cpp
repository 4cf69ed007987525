// The commands import and export.
#include "runtime/exchange/exchange.h"

#include <filesystem>

#include "runtime/cli/commands.h"
#include "runtime/cli/say.h"

namespace runtime::cli {

namespace fs = std::filesystem;

namespace {

std::string described(const exchange::Exchanged& result) {
  return fmt::format("{} tensors with {:.1f} million numbers of a model of type {}{}",
                     result.parameters, static_cast<double>(result.numbers) / 1e6, result.family,
                     result.tokenizer ? ", and its tokenizer" : "");
}

}  // namespace

void import_hf(const std::string& folder, const std::string& output) {
  const exchange::Exchanged result = exchange::import_model(folder, output);
  say("{}: {}\n", output, described(result));
  if (result.vectors) {
    return say(
        "next: runtime predict {}/config.toml --data TEXTS.csv, a table with the column text\n",
        output);
  }
  say("next: set dataset.path in {0}/config.toml, then: runtime train {0}/config.toml\n", output);
}

void export_hf(const std::string& run, const std::string& output) {
  ConfigArguments arguments;
  arguments.path = (fs::path(run) / "config.toml").string();
  const config::Config config = arguments.load();
  const std::string weights = arguments.weights_or_own("");
  const exchange::Exchanged result = exchange::export_model(config, weights, output);
  say("{}: {}\n", output, described(result));
  say("next: transformers.{}.from_pretrained(\"{}\")\n", result.loader, output);
}

}  // namespace runtime::cli
