// The command tokenize: the tokens of a text as files, and a configuration that trains on them.
#include <cstdlib>
#include <filesystem>

#include "runtime/cli/commands.h"
#include "runtime/cli/say.h"
#include "runtime/config/choices.h"
#include "runtime/config/config.h"
#include "runtime/data/text_pieces.h"
#include "runtime/error.h"
#include "runtime/system/atomic_file.h"
#include "runtime/system/atomic_folder.h"
#include "runtime/train/open.h"

namespace runtime::cli {

void write_tokens(const ConfigArguments& arguments, const std::string& output) {
  config::Config config = arguments.load();
  const config::Format* const format = config::format_of(config.dataset);
  if (format == nullptr || !format->language || format->ids) {
    const std::string name = format == nullptr ? config.dataset.format : format->name;
    throw ConfigurationError("the format of the data set is \"" + name +
                             "\"; expected text, whose tokens are written");
  }
  const data::DatasetOptions options =
      train::data_options(config, std::getenv("RUNTIME_DATA_PATH"));
  data::TokenFiles files;
  system::write_folder(output, [&](const std::filesystem::path& folder) {
    files = data::write_token_files(options, folder.string());
    config::Dataset& dataset = config.dataset;
    dataset.name.clear();
    dataset.format = "tokens";
    dataset.path = "train.bin";
    dataset.validation_path = files.validation > 0 ? "validation.bin" : "";
    dataset.token_type = files.token_type;
    dataset.tokenizer = options.tokenizer;
    dataset.tokenizer_path =
        options.tokenizer_path.empty()
            ? ""
            : std::filesystem::absolute(options.tokenizer_path).lexically_normal().string();
    dataset.invalid_utf8 = config::Dataset().invalid_utf8;
    system::write_file((folder / "config.toml").string(), config::to_toml(config));
  });
  say("{}: {} tokens for training{}, of {} kinds, as {}\n", output, files.train,
      files.validation > 0 ? fmt::format(" and {} for validation", files.validation) : "",
      files.vocabulary, files.token_type);
  say("next: runtime train {}/config.toml\n", output);
}

}  // namespace runtime::cli
