// Tokenizers for characters, bytes and plain numbers, and how they are saved by name.
#include "runtime/data/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <vector>

#include "runtime/data/source.h"
#include "runtime/data/utf8.h"
#include "runtime/error.h"
#include "runtime/row_of.h"

namespace runtime::data {
namespace {

class CharacterTokenizer final : public Tokenizer {
 public:
  explicit CharacterTokenizer(const std::string& characters) : ids_(kMaxCodePoint + 1, -1) {
    for (std::size_t at = 0; at < characters.size();) {
      const std::size_t begin = at;
      int32_t& id = ids_[next_code_point(characters, at, "the characters of the vocabulary")];
      if (id >= 0) fail_at("the characters of the vocabulary", begin, "one that was there before");
      id = static_cast<int32_t>(texts_.size());
      texts_.push_back(characters.substr(begin, at - begin));
    }
  }

  int64_t vocabulary() const override { return static_cast<int64_t>(texts_.size()); }

  void encode(std::string_view text, const std::string& name, const Emit& emit) const override {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const int32_t id = ids_[next_code_point(text, at, name)];
      if (id < 0) {
        fail_at(name, begin,
                "the character '" + std::string(text.substr(begin, at - begin)) +
                    "' is none of the " + std::to_string(vocabulary()) +
                    " of the training text; leave it out, or train with tokenizer = \"byte\"");
      }
      emit(id);
    }
  }

  std::string decode(int32_t id) const override { return texts_[static_cast<std::size_t>(id)]; }

 private:
  std::vector<int32_t> ids_;  // indexed by code point; -1: not in the vocabulary
  std::vector<std::string> texts_;
};

class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocabulary() const override { return 256; }
  void encode(std::string_view text, const std::string&, const Emit& emit) const override {
    for (const char c : text) emit(static_cast<uint8_t>(c));
  }
  std::string decode(int32_t id) const override { return std::string(1, static_cast<char>(id)); }
};

class NumberTokenizer final : public Tokenizer {
 public:
  explicit NumberTokenizer(int64_t vocabulary) : vocabulary_(vocabulary) {}
  int64_t vocabulary() const override { return vocabulary_; }

  void encode(std::string_view text, const std::string& name, const Emit& emit) const override {
    for (std::size_t at = 0; at < text.size();) {
      if (text[at] == ' ' || text[at] == '\n') {
        ++at;
        continue;
      }
      int32_t id = -1;
      const char* begin = text.data() + at;
      const auto [end, error] = std::from_chars(begin, text.data() + text.size(), id);
      if (error != std::errc() || id < 0 || id >= vocabulary_) {
        fail_at(name, at,
                "no token id; expected numbers in 0.." + std::to_string(vocabulary_ - 1) +
                    " with spaces between them, or text and dataset.tokenizer");
      }
      emit(id);
      at += static_cast<std::size_t>(end - begin);
    }
  }

  std::string decode(int32_t id) const override { return std::to_string(id) + " "; }

 private:
  int64_t vocabulary_;
};

NamedText read_named(const std::filesystem::path& path) {
  constexpr uint64_t kMaxFile = uint64_t{64} << 20;  // bytes; GPT-2's files have about 1 MiB
  return {path.string(), read_marked_text(path.string(), kMaxFile)};
}

}  // namespace

std::string characters_of(std::string_view text, const std::string& name) {
  std::vector<bool> seen(kMaxCodePoint + 1);
  for (std::size_t at = 0; at < text.size();) seen[next_code_point(text, at, name)] = true;
  std::string characters;
  for (char32_t c = 0; c <= kMaxCodePoint; ++c) {
    if (seen[c]) append_utf8(characters, c);
  }
  return characters;
}

namespace {

using Made = std::unique_ptr<const Tokenizer>;

Made make_gpt2(const DatasetOptions& options, const std::string&) {
  const std::filesystem::path folder = options.tokenizer_path;
  if (folder.empty()) return nullptr;
  return make_gpt2_tokenizer(read_named(folder / "vocab.json"), read_named(folder / "merges.txt"));
}

// A tokenizer as a row. `make` returns null if the options say too little; `learns`: its tokens are
// the characters of the text.
struct TokenizerRow {
  std::string_view name;
  Made (*make)(const DatasetOptions& options, const std::string& characters);
  bool learns = false;
};

constexpr TokenizerRow kTokenizers[] = {
    {"char",
     [](const auto&, const std::string& c) -> Made {
       return std::make_unique<CharacterTokenizer>(c);
     },
     true},
    {"byte", [](const auto&, const auto&) -> Made { return std::make_unique<ByteTokenizer>(); }},
    {"gpt2", make_gpt2}};

}  // namespace

std::vector<std::string> tokenizer_names() { return names_of_rows(kTokenizers); }

bool learns_characters(const std::string& tokenizer) {
  return std::any_of(std::begin(kTokenizers), std::end(kTokenizers),
                     [&](const auto& row) { return row.learns && row.name == tokenizer; });
}

Made make_tokenizer(const DatasetOptions& options, const std::string& characters,
                    int64_t vocabulary) {
  if (options.tokenizer.empty()) return std::make_unique<NumberTokenizer>(vocabulary);
  for (const TokenizerRow& row : kTokenizers) {
    if (row.name != options.tokenizer) continue;
    if (Made made = row.make(options, characters)) return made;
  }
  throw ConfigurationError("dataset.tokenizer is \"" + options.tokenizer +
                           "\"; expected char, byte, or gpt2 with dataset.tokenizer_path, the "
                           "folder of vocab.json and merges.txt");
}

}  // namespace runtime::data
