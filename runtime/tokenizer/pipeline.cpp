// Runs the components of a tokenizer one after another, and reads them from a tokenizer.json.
#include "runtime/tokenizer/pipeline.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "runtime/tokenizer/utf8.h"

namespace runtime::tokenizer {
namespace {

constexpr std::size_t kLongestKept = 128;  // bytes of a piece whose ids are kept

// The ids of pieces that have been seen, because most words of a text come again.
class PieceCache {
 public:
  explicit PieceCache(const Model& model) : model_(model) {}

  const std::vector<int32_t>& ids_of(std::string_view piece) {
    constexpr std::size_t kMostPieces = std::size_t{1} << 18;
    if (const auto it = known_.find(piece); it != known_.end()) return it->second;
    const bool keep = piece.size() <= kLongestKept && known_.size() < kMostPieces;
    std::vector<int32_t>& ids = keep ? known_[std::string(piece)] : unknown_;
    ids.clear();
    model_.tokenize(piece, ids);
    return ids;
  }

 private:
  const Model& model_;
  ByText<std::vector<int32_t>> known_;
  std::vector<int32_t> unknown_;  // of a piece that is not kept
};

class Pipeline final : public Tokenizer {
 public:
  explicit Pipeline(Components components) : parts_(std::move(components)) {}

  int64_t vocabulary() const override {
    return std::max(parts_.model->vocabulary().end(), parts_.added.end());
  }

  void encode(std::string_view text, const std::string& name, const Emit& emit) const override {
    check_utf8(text, name);
    PieceCache cache(*parts_.model);
    const EmitPiece emit_ids = [&](const Piece& piece) {
      for (std::string_view rest = piece.text; !rest.empty();) {
        const std::size_t end =
            rest.size() > kLongestKept ? parts_.model->part_end(rest) : rest.size();
        for (const int32_t id : cache.ids_of(rest.substr(0, end))) emit(id);
        rest.remove_prefix(end);
      }
    };
    parts_.added.split(text, false, [&](Range range, const AddedToken* token) {
      if (token != nullptr) return emit(token->id);
      const std::string_view between = text.substr(range.begin, range.end - range.begin);
      encode_stretch({std::string(between), range.begin == 0}, emit, emit_ids);
    });
  }

  std::string decode(Ids ids) const override {
    std::vector<std::string> tokens;
    for (const int32_t id : ids) {
      if (const std::string* token = text_of(id)) tokens.push_back(*token);
    }
    if (parts_.decoder) parts_.decoder(tokens);
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && !parts_.decoder) text += ' ';
      text += tokens[i];
    }
    return text;
  }

  Marked marked(Ids first, std::optional<Ids> second) const override {
    return parts_.post_processor.process(first, second);
  }

  bool is_special(int32_t id) const override {
    const std::string* text = text_of(id);
    return text != nullptr && parts_.added.is_special(*text);
  }

 private:
  const std::string* text_of(int32_t id) const {
    if (const AddedToken* token = parts_.added.find(id)) return &token->content;
    return parts_.model->vocabulary().token(id);
  }

  void encode_stretch(Stretch stretch, const Emit& emit, const EmitPiece& emit_ids) const {
    if (parts_.normalizer) parts_.normalizer(stretch);
    const std::string_view text = stretch.text;
    parts_.added.split(text, true, [&](Range range, const AddedToken* token) {
      if (token != nullptr) return emit(token->id);
      const Piece piece{text.substr(range.begin, range.end - range.begin),
                        stretch.at_start && range.begin == 0};
      parts_.pre_tokenizer ? parts_.pre_tokenizer(piece, emit_ids) : emit_ids(piece);
    });
  }

  Components parts_;
};

nlohmann::json parse_object(const NamedText& file) {
  try {
    nlohmann::json json = nlohmann::json::parse(file.text);
    if (json.is_object()) return json;
  } catch (const nlohmann::json::exception&) {
  }
  throw DataError(file.name +
                  ": no JSON object; expected the file tokenizer.json of a model of Hugging Face");
}

}  // namespace

Marked Tokenizer::marked(Ids first, std::optional<Ids> second) const {
  return PostProcessor().process(first, second);
}

TokenizerPointer make_pipeline(Components components) {
  return std::make_unique<Pipeline>(std::move(components));
}

TokenizerPointer read_tokenizer(const NamedText& file) {
  const nlohmann::json json = parse_object(file);
  const nlohmann::json none;
  const auto element = [&](const char* key) {
    const auto it = json.find(key);
    return Element(it == json.end() ? none : *it, file.name + ": " + key);
  };
  Components parts;
  parts.model = read_model(element("model"));
  parts.normalizer = read_normalizer(element("normalizer"));
  parts.added = AddedTokens(read_added_tokens(element("added_tokens"), parts.model->vocabulary()),
                            parts.normalizer);
  parts.pre_tokenizer = read_pre_tokenizer(element("pre_tokenizer"));
  parts.post_processor = read_post_processor(element("post_processor"));
  parts.decoder = read_decoder(element("decoder"));
  return make_pipeline(std::move(parts));
}

}  // namespace runtime::tokenizer
