// Tokenizers for characters, bytes and plain numbers, and how they are saved by name.
#include "runtime/data/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <vector>

#include "runtime/data/crc32.h"
#include "runtime/data/source.h"
#include "runtime/error.h"
#include "runtime/row_of.h"
#include "runtime/tokenizer/utf8.h"

namespace runtime::data {
namespace {

using tokenizer::append_utf8;
using tokenizer::Ids;
using tokenizer::kMaxCodePoint;
using tokenizer::next_code_point;

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

  std::string decode(Ids ids) const override {
    std::string text;
    for (const int32_t id : ids) text += texts_[static_cast<std::size_t>(id)];
    return text;
  }

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
  std::string decode(Ids ids) const override { return std::string(ids.begin(), ids.end()); }
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

  std::string decode(Ids ids) const override {
    std::string text;
    for (const int32_t id : ids) text += std::to_string(id) + " ";
    return text;
  }

 private:
  int64_t vocabulary_;
};

tokenizer::NamedText read_named(const std::filesystem::path& path) {
  constexpr uint64_t kMaxFile = uint64_t{64} << 20;  // bytes; the largest known have half of it
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

TokenizerPointer make_gpt2(const DatasetOptions& options, const std::string&) {
  const std::filesystem::path folder = options.tokenizer_path;
  if (folder.empty()) return nullptr;
  return tokenizer::make_gpt2_tokenizer(read_named(folder / "vocab.json"),
                                        read_named(folder / "merges.txt"));
}

std::filesystem::path hugging_face_file(const DatasetOptions& options) {
  const std::filesystem::path path = options.tokenizer_path;
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? path / "tokenizer.json" : path;
}

TokenizerPointer make_hugging_face(const DatasetOptions& options, const std::string&) {
  if (options.tokenizer_path.empty()) return nullptr;
  return tokenizer::read_tokenizer(read_named(hugging_face_file(options)));
}

// A tokenizer as a row. `make` returns null if the options say too little; `learns`: its tokens are
// the characters of the text; `file` returns the one that tells it from others of the name.
struct TokenizerRow {
  std::string_view name;
  TokenizerPointer (*make)(const DatasetOptions& options, const std::string& characters);
  bool learns = false;
  std::filesystem::path (*file)(const DatasetOptions& options) = nullptr;
};

constexpr TokenizerRow kTokenizers[] = {{"char",
                                         [](const auto&, const std::string& c) -> TokenizerPointer {
                                           return std::make_unique<CharacterTokenizer>(c);
                                         },
                                         true},
                                        {"byte",
                                         [](const auto&, const auto&) -> TokenizerPointer {
                                           return std::make_unique<ByteTokenizer>();
                                         }},
                                        {"gpt2", make_gpt2},
                                        {"hf", make_hugging_face, false, hugging_face_file}};

}  // namespace

std::vector<std::string> tokenizer_names() { return names_of_rows(kTokenizers); }

bool learns_characters(const std::string& tokenizer) {
  return std::any_of(std::begin(kTokenizers), std::end(kTokenizers),
                     [&](const auto& row) { return row.learns && row.name == tokenizer; });
}

std::string tokenizer_identity(const DatasetOptions& options) {
  const TokenizerRow* const row = find_choice(kTokenizers, options.tokenizer);
  if (row == nullptr || row->file == nullptr) return options.tokenizer;
  const std::string text = read_named(row->file(options)).text;
  return options.tokenizer + " " + std::to_string(crc32(text.data(), text.size()));
}

TokenizerPointer make_tokenizer(const DatasetOptions& options, const std::string& characters,
                                int64_t vocabulary) {
  if (options.tokenizer.empty()) return std::make_unique<NumberTokenizer>(vocabulary);
  for (const TokenizerRow& row : kTokenizers) {
    if (row.name != options.tokenizer) continue;
    if (TokenizerPointer made = row.make(options, characters)) return made;
  }
  throw ConfigurationError("dataset.tokenizer is \"" + options.tokenizer +
                           "\"; expected char, byte, or with dataset.tokenizer_path gpt2 (the "
                           "folder of vocab.json and merges.txt) or hf (tokenizer.json)");
}

}  // namespace runtime::data
