// Data sets of language models: texts, files of token ids, generated tokens.
#include <algorithm>
#include <filesystem>

#include "runtime/data/formats.h"
#include "runtime/data/shared.h"
#include "runtime/data/text_pieces.h"
#include "runtime/data/tokenizer.h"
#include "runtime/data/tokens.h"
#include "runtime/data/views.h"
#include "runtime/error.h"
#include "runtime/row_of.h"

namespace runtime::data {

int32_t token_of(const std::string& key, const std::string& text, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, "dataset." + key, [&](int32_t id) { ids.push_back(id); });
  if (ids.size() == 1) return ids[0];
  for (int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    if (tokenizer.decode({&id, 1}) == text) return id;
  }
  throw ConfigurationError(
      "dataset." + key + " = \"" + text + "\" is " + std::to_string(ids.size()) +
      " tokens; expected one, for example \"<|endoftext|>\" or \"[MASK]\" where "
      "the tokenizer has it, or a number where it has no texts");
}

namespace {

// All token ids of the files, before they are divided into samples.
struct Text {
  std::shared_ptr<const Tokens> train, validation;  // validation is null if it has no file of its
                                                    // own
  SampleSpec spec;                                  // vocabulary and characters
  int32_t separator = -1;                           // see Windows
  std::vector<std::string> notes = {};              // as in DatasetPair
};

// Sets what the options say about single tokens.
void read_marks(const DatasetOptions& options, const Tokenizer& tokenizer, Text& text) {
  const auto find = [&](const std::string& key, const std::string& token) {
    const int32_t id = token_of(key, token, tokenizer);
    if (id < text.spec.classes) return id;
    throw ConfigurationError("dataset." + key + " = \"" + token + "\" is token " +
                             std::to_string(id) + "; expected one below dataset.classes, " +
                             std::to_string(text.spec.classes));
  };
  if (!options.separator.empty()) text.separator = find("separator", options.separator);
  if (!options.masked_token) return;
  TokenMasking masking{
      options.mask_share, find("mask_token", options.mask_token), text.spec.classes, {}};
  masking.kept.resize(static_cast<std::size_t>(text.spec.classes));
  const int64_t named = std::min(tokenizer.vocabulary(), text.spec.classes);
  for (int32_t id = 0; id < named; ++id)
    masking.kept[static_cast<std::size_t>(id)] = tokenizer.is_special(id);
  text.spec.masking = std::make_shared<TokenMasking>(std::move(masking));
}

std::shared_ptr<const Tokens> tokens_in(std::shared_ptr<const system::HostMemory> memory,
                                        std::size_t piece, const Tokenizer& tokenizer) {
  const auto make = [&]<class Id>(std::span<const Id> ids) {
    return make_tokens(Held<Id>(std::move(memory), ids));
  };
  return is_narrow(tokenizer) ? make(memory->numbers<uint16_t>(piece))
                              : make(memory->numbers<int32_t>(piece));
}

// What the options and the tokenizer say of a text, before it is encoded.
Text described(const DatasetOptions& options, const Tokenizer& tokenizer, std::string characters) {
  Text text;
  text.spec.characters = std::move(characters);
  text.spec.classes = tokenizer.vocabulary();
  read_marks(options, tokenizer, text);
  return text;
}

Text read_texts(const DatasetOptions& options) {
  // The options are checked before the text is encoded, which takes long.
  const auto check = [&](const Tokenizer& tokenizer) { described(options, tokenizer, ""); };
  std::vector<std::string> notes;
  const auto memory = read_once(
      options, {options.path, options.validation_path, options.tokenizer_path},
      [&](system::Pieces& pieces) { encode_texts(options, check, pieces); }, notes);
  const auto characters = memory->numbers<char>(kCharacters);
  std::string all(characters.begin(), characters.end());
  const auto tokenizer = make_tokenizer(options, all, 0);
  Text result = described(options, *tokenizer, std::move(all));
  result.train = tokens_in(memory, kTrain, *tokenizer);
  if (!options.validation_path.empty())
    result.validation = tokens_in(memory, kValidation, *tokenizer);
  result.notes = std::move(notes);
  return result;
}

Text open_token_files(const DatasetOptions& options) {
  Text result;
  const int token_bytes =
      row_of<int>("dataset.token_type", options.token_type, {{"uint16", 2}, {"uint32", 4}});
  const auto open = [&](const std::string& path, int64_t vocabulary) {
    return open_token_file(path, token_bytes, vocabulary);
  };
  int64_t& vocabulary = result.spec.classes;
  if (vocabulary = options.classes; vocabulary == 0 && !options.tokenizer.empty())
    vocabulary = make_tokenizer(options, "", 0)->vocabulary();
  if (vocabulary == 0) vocabulary = count_vocabulary(*open(options.path, kMaxVocabulary));
  if (!options.separator.empty() || options.masked_token)
    read_marks(options, *make_tokenizer(options, "", vocabulary), result);
  result.train = open(options.path, vocabulary);
  if (!options.validation_path.empty())
    result.validation = open(options.validation_path, vocabulary);
  return result;
}

DatasetPair open_language(const DatasetOptions& options, Text (*read)(const DatasetOptions&)) {
  if (options.shape.size() != 1) {
    throw ConfigurationError("model.input is " + shape_text(options.shape) +
                             "; expected [length], the tokens that a language model sees at once");
  }
  const Text text = read(options);
  if (options.classes > 0 && options.classes < text.spec.classes) {
    throw ConfigurationError("dataset.classes is " + std::to_string(options.classes) +
                             ", but the text has " + std::to_string(text.spec.classes) +
                             " different tokens; expected at least as many, or 0");
  }
  const std::string title = std::filesystem::path(options.path).filename().string();
  const int64_t size = text.train->size(), context = options.shape[0];
  const int64_t training = training_samples(size, options.validation_split, "tokens");
  const int64_t stride = options.stride > 0 ? options.stride : context;
  DatasetPair pair;
  pair.notes = text.notes;
  const auto windows = [&](const std::shared_ptr<const Tokens>& tokens, int64_t begin, int64_t end,
                           int64_t step) {
    return make_token_dataset(tokens, {begin, end, context, step, text.separator}, text.spec,
                              title);
  };
  pair.train = windows(text.train, 0, training, stride);
  if (text.validation != nullptr) {
    pair.validation = windows(text.validation, 0, text.validation->size(), context);
  } else if (training < size) {
    pair.validation = windows(text.train, training, size, context);
  }
  return pair;
}

}  // namespace

DatasetPair open_text(const DatasetOptions& options) {
  DatasetPair pair = open_language(options, read_texts);
  pair.preparation.tokenizer = tokenizer_identity(options);
  return pair;
}

DatasetPair open_tokens(const DatasetOptions& options) {
  return open_language(options, open_token_files);
}

}  // namespace runtime::data
