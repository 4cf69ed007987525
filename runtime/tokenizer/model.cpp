// The models that can be read, by their names.
#include "runtime/tokenizer/model.h"

#include <nlohmann/json.hpp>

namespace runtime::tokenizer {
namespace {

constexpr ComponentRow<ModelPointer> kModels[] = {
    {"BPE", read_bpe}, {"WordPiece", read_word_piece}, {"Unigram", read_unigram}};

// Old files do not name the type of their model.
const char* likely_type(const Element& element) {
  if (element.has("merges")) return "BPE";
  if (element.has("max_input_chars_per_word")) return "WordPiece";
  return element.has("vocab") && element.at("vocab").json().is_array() ? "Unigram" : "WordLevel";
}

}  // namespace

ModelPointer read_model(const Element& element) {
  return element.row(kModels, likely_type(element)).read(element);
}

}  // namespace runtime::tokenizer
