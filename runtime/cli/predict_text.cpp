// The text that a model continues, or fills in.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <numeric>
#include <set>

#include "runtime/cli/predict.h"
#include "runtime/config/choices.h"
#include "runtime/data/preparation.h"
#include "runtime/data/safetensors.h"
#include "runtime/data/tokenizer.h"
#include "runtime/data/tokens.h"
#include "runtime/error.h"
#include "runtime/tokenizer/chat.h"
#include "runtime/tokenizer/text_stream.h"
#include "runtime/train/generate.h"
#include "runtime/train/open.h"
#include "runtime/train/weights.h"

namespace runtime::cli {

namespace {

// Clears the paths of the data set, because its files may not exist any more.
data::DatasetOptions options_without_files(config::Config config) {
  for (std::string* path :
       {&config.dataset.path, &config.dataset.target_path, &config.dataset.validation_path,
        &config.dataset.validation_target_path})
    path->clear();
  config.dataset.inputs.clear();
  return train::data_options(config, data_search_path());
}

// The metadata of a file of weights, such as its characters and its tokenizer.
using Metadata = std::map<std::string, std::string>;

// Opens the data set only if neither the configuration nor the weights tell the vocabulary.
data::SampleSpec text_spec(const config::Config& config, const plugins::host::Registry& registry,
                           const data::DatasetOptions& options, const Metadata& weights) {
  const auto characters = weights.find(train::kCharacters);
  data::SampleSpec spec;
  if (data::learns_characters(options.tokenizer)) {
    if (characters == weights.end())
      return train::open_data(config, data_search_path(), &registry).train->spec();
    spec.characters = characters->second;
  } else if (options.tokenizer.empty() && options.classes == 0) {
    return train::open_data(config, data_search_path(), &registry).train->spec();
  }
  spec.classes = data::make_tokenizer(options, spec.characters, options.classes)->vocabulary();
  spec.shape = config.model.input;
  spec.labels = spec.shape[0];
  spec.vocabulary = spec.classes;
  const bool masked = config::task_of(config.dataset).masked;
  if (masked || !config.dataset.separator.empty())
    spec.inputs = data::token_inputs(spec.shape[0], masked);
  return spec;
}

// Another tokenizer would give the ids of the model another meaning. Weights that were trained on a
// file of ids do not say which one made it.
void check_tokenizer(const data::DatasetOptions& options, const Metadata& weights,
                     const std::string& path) {
  const auto saved = weights.find(train::kPreparation);
  if (saved == weights.end()) return;
  const std::string before = data::parse_preparation(saved->second, path).tokenizer;
  const std::string now = data::tokenizer_identity(options);
  if (before.empty() || before == now) return;
  throw DataError(path + ": the weights were trained with the tokenizer \"" + before +
                  "\" (a number is the checksum of tokenizer.json), the configuration has \"" +
                  now + "\"; use the one of the training");
}

std::vector<int32_t> encode_text(const data::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<int32_t> ids;
  try {
    tokenizer.encode(prompt, "--prompt", [&](int32_t id) { ids.push_back(id); });
  } catch (const DataError& error) {
    throw ConfigurationError(error.what());
  }
  if (ids.empty())
    throw ConfigurationError("--prompt has no token; expected at least one to begin with");
  return ids;
}

// The tokens of a text and the special ones that stand before it; those behind it would end it.
std::vector<int32_t> with_special_tokens(const data::Tokenizer& tokenizer,
                                         const std::vector<int32_t>& text) {
  std::vector<int32_t> ids = tokenizer.marked(text).ids;
  const auto found = std::find_end(ids.begin(), ids.end(), text.begin(), text.end());
  ids.resize(static_cast<size_t>(found - ids.begin()) + text.size());
  return ids;
}

const tokenizer::ChatFormat& chat_format(const data::Tokenizer& tokenizer) {
  if (const auto* const format = tokenizer::find_chat_format(tokenizer)) return *format;
  throw ConfigurationError(
      "--chat: the tokenizer has none of the special tokens that tell how conversations are "
      "written; expected one of " +
      tokenizer::all_chat_formats() + ": write the turn as the model expects it in --prompt");
}

// The tokens from which the model goes on.
std::vector<int32_t> prompt_of(const PredictArguments& arguments,
                               const data::Tokenizer& tokenizer) {
  if (!arguments.chat) {
    if (!arguments.system.empty())
      throw ConfigurationError("--system is the beginning of a conversation; add --chat");
    const std::vector<int32_t> ids = encode_text(tokenizer, arguments.prompt);
    return arguments.special_tokens ? with_special_tokens(tokenizer, ids) : ids;
  }
  return encode_text(tokenizer, tokenizer::chat_prompt(chat_format(tokenizer), arguments.system,
                                                       arguments.prompt));
}

// The tokens with which a text ends: that of a document, and that of an answer.
std::set<int32_t> end_tokens(const PredictArguments& arguments, const data::DatasetOptions& options,
                             const data::Tokenizer& tokenizer) {
  std::set<int32_t> ends;
  if (!options.separator.empty())
    ends.insert(data::token_of("separator", options.separator, tokenizer));
  if (arguments.chat) ends.insert(*find_special(tokenizer, chat_format(tokenizer).end));
  return ends;
}

config::Config for_one_sample(config::Config config) {
  config.training.global_batch_size = 1;
  config.training.micro_batch_size = 0;
  config.debug.virtual_shards = 1;
  return config;
}

}  // namespace

void write_text(const launch::Rank& rank, const PredictArguments& arguments) {
  const config::Config config = for_one_sample(rank.config);
  const data::DatasetOptions options = options_without_files(rank.config);
  const Metadata weights = data::read_safetensors_metadata(arguments.weights);
  const data::SampleSpec spec = text_spec(config, *rank.registry, options, weights);
  const auto tokenizer = data::make_tokenizer(options, spec.characters, spec.classes);
  check_tokenizer(options, weights, arguments.weights);
  const std::vector<int32_t> prompt = prompt_of(arguments, *tokenizer);
  const std::set<int32_t> ends = end_tokens(arguments, options, *tokenizer);
  const Opened model = open_model(rank, config, spec);
  train::Generator generator(*model.programs, arguments.sampling, prompt);
  tokenizer::TextStream text(*tokenizer);
  if (!arguments.chat) {
    for (const int32_t id : prompt) std::cout << text.add(id);
  }
  std::string written;
  const auto stops = [&] {
    return std::any_of(arguments.stop.begin(), arguments.stop.end(), [&](const std::string& stop) {
      return written.find(stop) != std::string::npos;
    });
  };
  for (int64_t i = 0; i < arguments.tokens && std::cout && !stops(); ++i) {
    std::cout << std::flush;
    const int32_t id = generator.next();
    if (ends.contains(id)) break;
    const std::string piece = text.add(id);
    written += piece;
    std::cout << piece;
  }
  std::cout << text.finish() << std::endl;
}

void fill_masks(const launch::Rank& rank, const PredictArguments& arguments) {
  constexpr int64_t kShown = 5;  // tokens for each mask
  const config::Config config = for_one_sample(rank.config);
  const data::DatasetOptions options = options_without_files(rank.config);
  const Metadata weights = data::read_safetensors_metadata(arguments.weights);
  const data::SampleSpec spec = text_spec(config, *rank.registry, options, weights);
  const auto tokenizer = data::make_tokenizer(options, spec.characters, spec.classes);
  check_tokenizer(options, weights, arguments.weights);
  const int32_t mask = data::token_of("mask_token", options.mask_token, *tokenizer);
  std::vector<int32_t> ids = tokenizer->marked(encode_text(*tokenizer, arguments.prompt)).ids;
  if (static_cast<int64_t>(ids.size()) > spec.shape[0]) {
    throw ConfigurationError("--prompt has " + std::to_string(ids.size()) +
                             " tokens with those around it; expected at most model.input, " +
                             std::to_string(spec.shape[0]));
  }
  if (std::find(ids.begin(), ids.end(), mask) == ids.end()) {
    throw ConfigurationError("--prompt has no " + options.mask_token +
                             "; expected one for each token that the model is to fill in");
  }
  const Opened model = open_model(rank, config, spec);
  data::Batch batch = data::zero_batch(spec, 1);
  std::copy(ids.begin(), ids.end(), batch.features.begin());
  auto& documents = batch.inputs[*spec.find_input("documents")].integers;
  std::fill(documents.begin() + static_cast<int64_t>(ids.size()), documents.end(), -1);  // padding
  auto& positions = batch.inputs[*spec.find_input("positions")].integers;
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<double> outputs = model.trainer->outputs(batch);
  const size_t width = outputs.size() / batch.features.size();
  std::vector<std::string> lines;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != mask) continue;
    const double* const logits = outputs.data() + i * width;
    std::vector<int32_t> best(static_cast<size_t>(spec.classes));
    std::iota(best.begin(), best.end(), 0);
    const auto shown = best.begin() + std::min(kShown, spec.classes);
    std::partial_sort(best.begin(), shown, best.end(),
                      [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
    double sum = 0;
    for (const int32_t id : best) sum += std::exp(logits[id] - logits[best[0]]);
    std::string line = options.mask_token + ":";
    for (auto id = best.begin(); id != shown; ++id) {
      line += fmt::format(" {:?} {:.4f}", tokenizer->decode({&*id, 1}),
                          std::exp(logits[*id] - logits[best[0]]) / sum);
    }
    lines.push_back(std::move(line));
    ids[i] = best[0];
  }
  std::erase_if(ids, [&](int32_t id) { return tokenizer->is_special(id); });
  fmt::print("{}\n", tokenizer->decode(ids));
  for (const std::string& line : lines) fmt::print("{}\n", line);
}

}  // namespace runtime::cli
