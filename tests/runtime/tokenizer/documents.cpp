// Makes documents of tokenizers, and encodes with them.
#include "tests/runtime/tokenizer/documents.h"

namespace runtime::tokenizer::test {

const char kSmallBpe[] =
    R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, "merges": ["a b", ["ab", "c"]]})";

std::string document(const std::string& model, const std::string& more) {
  return "{\"model\": " + model + (more.empty() ? "" : ", ") + more + "}";
}

TokenizerPointer tokenizer_of(const std::string& model, const std::string& more) {
  return read_tokenizer({"tokenizer.json", document(model, more)});
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, "text", [&](int32_t id) { ids.push_back(id); });
  return ids;
}

}  // namespace runtime::tokenizer::test
