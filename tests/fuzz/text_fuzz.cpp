// Any bytes are either characters that can be restored from their ids, or are refused with a
// DataError. The texts before and after the first zero byte are either the two files of GPT-2's
// tokenizer (vocabulary and merges), or are refused.
#include <cstdlib>

#include "runtime/data/tokenizer.h"
#include "runtime/error.h"
#include "runtime/tokenizer/utf8.h"

namespace {

using namespace runtime::data;
using runtime::tokenizer::check_utf8;
using runtime::tokenizer::with_replacements;

void expect_back(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, "fuzz", [&](int32_t id) { ids.push_back(id); });
  if (tokenizer.decode(ids) != text) std::abort();
}

void characters(const std::string& text) {
  check_utf8(with_replacements(text), "a text with replacements");
  DatasetOptions options;
  options.tokenizer = "char";
  expect_back(*make_tokenizer(options, characters_of(text, "fuzz"), 0), text);
  if (with_replacements(text) != text) std::abort();
}

void byte_pairs(const std::string& text) {
  const std::size_t cut = text.find('\0');
  const std::string merges = cut == std::string::npos ? "" : text.substr(cut + 1);
  const auto tokenizer =
      runtime::tokenizer::make_gpt2_tokenizer({"vocab", text.substr(0, cut)}, {"merges", merges});
  expect_back(*tokenizer, "Hello, world's  2\n\xC3\xA9");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto check : {characters, byte_pairs}) {
    try {
      check(text);
    } catch (const runtime::DataError&) {
    }
  }
  return 0;
}
