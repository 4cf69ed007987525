// Encodes texts piece by piece.
#include "runtime/data/text_pieces.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <vector>

#include "runtime/data/formats.h"
#include "runtime/data/source.h"
#include "runtime/error.h"
#include "runtime/system/atomic_file.h"
#include "runtime/system/available_memory.h"
#include "runtime/tokenizer/utf8.h"

namespace runtime::data {
namespace {

std::string read_utf8(const std::string& path, const DatasetOptions& options) {
  std::string text = read_marked_text(path);
  return options.replaces_invalid_utf8 ? tokenizer::with_replacements(text) : text;
}

// Writes the ids of a text as the next piece.
template <class Id>
void add_ids(const std::string& text, const std::string& name, const Tokenizer& tokenizer,
             system::Pieces& pieces) {
  constexpr std::size_t kAtOnce = 1 << 16;
  system::require_memory(text.size() * sizeof(Id), name + ": its tokens",
                         "use a smaller file or a machine with more memory");
  pieces.begin(text.size() * sizeof(Id));  // a token has one byte at least, almost always
  std::vector<Id> ids;
  ids.reserve(kAtOnce);
  const auto flush = [&] {
    pieces.add(ids.data(), ids.size() * sizeof(Id));
    ids.clear();
  };
  tokenizer.encode(text, name, [&](int32_t id) {
    ids.push_back(static_cast<Id>(id));
    if (ids.size() == kAtOnce) flush();
  });
  flush();
}

// Writes the tokens of a text as the next piece.
void add_tokens(const std::string& text, const std::string& name, const Tokenizer& tokenizer,
                system::Pieces& pieces) {
  return is_narrow(tokenizer) ? add_ids<uint16_t>(text, name, tokenizer, pieces)
                              : add_ids<int32_t>(text, name, tokenizer, pieces);
}

// Writes the pieces that hold tokens into files.
class FilesOfPieces final : public system::Pieces {
 public:
  explicit FilesOfPieces(const std::filesystem::path& folder) : folder_(folder) {}
  void begin(std::size_t) override {
    end();
    static constexpr const char* kNames[] = {nullptr, "train.bin", "validation.bin"};
    const char* const name = kNames[sizes_.size()];
    if (name != nullptr) {
      file_ = std::make_unique<system::AtomicFile>((folder_ / name).string(),
                                                   system::AtomicFile::Size::kLarge);
    }
    sizes_.push_back(0);
  }
  void add(const void* bytes, std::size_t size) override {
    if (file_) file_->write(bytes, size);
    sizes_.back() += size;
  }
  // Ends the last file.
  void end() {
    if (file_) file_->commit();
    file_.reset();
  }
  std::size_t size(TextPiece piece) const { return piece < sizes_.size() ? sizes_[piece] : 0; }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<system::AtomicFile> file_;
  std::vector<std::size_t> sizes_;
};

}  // namespace

bool is_narrow(const Tokenizer& tokenizer) {
  return tokenizer.vocabulary() <= std::numeric_limits<uint16_t>::max() + 1;
}

void encode_texts(const DatasetOptions& options, const std::function<void(const Tokenizer&)>& check,
                  system::Pieces& pieces) {
  if (options.tokenizer.empty()) {
    throw ConfigurationError("dataset.tokenizer is missing for " + options.path +
                             "; expected char, byte, gpt2 or hf");
  }
  const std::string text = read_utf8(options.path, options);
  std::string characters;
  if (learns_characters(options.tokenizer)) {
    characters = options.preparation != nullptr ? options.preparation->characters
                                                : characters_of(text, options.path);
  }
  const auto tokenizer = make_tokenizer(options, characters, 0);
  check(*tokenizer);
  pieces.begin(characters.size());
  pieces.add(characters.data(), characters.size());
  add_tokens(text, options.path, *tokenizer, pieces);
  if (options.validation_path.empty()) return;
  add_tokens(read_utf8(options.validation_path, options), options.validation_path, *tokenizer,
             pieces);
}

TokenFiles write_token_files(const DatasetOptions& options, const std::string& folder) {
  const DatasetOptions resolved = options.name.empty() ? options : resolve_well_known(options);
  if (learns_characters(resolved.tokenizer)) {
    throw ConfigurationError(
        "dataset.tokenizer is \"" + resolved.tokenizer +
        "\", whose ids are numbered by the characters of the text, so that files of them say "
        "nothing without it; expected byte, gpt2 or hf");
  }
  TokenFiles files;
  std::size_t width = 0;
  FilesOfPieces pieces(folder);
  encode_texts(
      resolved,
      [&](const Tokenizer& tokenizer) {
        width = is_narrow(tokenizer) ? sizeof(uint16_t) : sizeof(int32_t);
        files.token_type = is_narrow(tokenizer) ? "uint16" : "uint32";
        files.vocabulary = tokenizer.vocabulary();
      },
      pieces);
  pieces.end();
  files.train = static_cast<int64_t>(pieces.size(kTrain) / width);
  files.validation = static_cast<int64_t>(pieces.size(kValidation) / width);
  return files;
}

}  // namespace runtime::data
