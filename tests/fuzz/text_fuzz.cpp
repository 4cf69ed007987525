// Any bytes are either characters that can be restored from their ids, or are refused with a
// DataError. The texts before and after the first zero byte are either the two files of GPT-2's
// tokenizer (vocabulary and merges), or are refused.
#include <cstdlib>

#include "runtime/data/tokenizer.h"
#include "runtime/error.h"

namespace {

using namespace runtime::data;

void expect_back(const Tokenizer& tokenizer, const std::string& text) {
  std::string back;
  tokenizer.encode(text, "fuzz", [&](int32_t id) { back += tokenizer.decode(id); });
  if (back != text) std::abort();
}

void characters(const std::string& text) {
  DatasetOptions options;
  options.tokenizer = "char";
  expect_back(*make_tokenizer(options, characters_of(text, "fuzz"), 0), text);
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    end = gpt2_piece_end(text, at, "fuzz");
    if (end <= at || end > text.size()) std::abort();
  }
}

void byte_pairs(const std::string& text) {
  const std::size_t cut = text.find('\0');
  const std::string merges = cut == std::string::npos ? "" : text.substr(cut + 1);
  const auto tokenizer = make_gpt2_tokenizer({"vocab", text.substr(0, cut)}, {"merges", merges});
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
