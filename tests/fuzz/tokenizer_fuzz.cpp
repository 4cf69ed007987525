// Any bytes are either a tokenizer.json, which then encodes a text, or are refused with a
// DataError. What follows the first zero byte is the text, in place of one that is built in.
#include <cstdlib>

#include "runtime/error.h"
#include "runtime/tokenizer/text_stream.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/tokenizer/utf8.h"

namespace {

using runtime::tokenizer::read_tokenizer;
using runtime::tokenizer::TextStream;
using runtime::tokenizer::TokenizerPointer;
using runtime::tokenizer::with_replacements;

void encode_and_decode(const std::string& json, const std::string& text) {
  const TokenizerPointer tokenizer = read_tokenizer({"fuzz", json});
  std::vector<int32_t> ids;
  tokenizer->encode(text, "text", [&](int32_t id) {
    if (id < 0 || id >= tokenizer->vocabulary()) std::abort();
    ids.push_back(id);
  });
  tokenizer->decode(tokenizer->marked(ids, ids).ids);
  TextStream stream(*tokenizer);
  for (const int32_t id : ids) stream.add(id);
  stream.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = input.find('\0');
  const std::string text =
      cut == std::string::npos
          ? "Hello, world's  12\n\u00E9e\u0301 \u4E2D\u6587 ab<s>abc \U0001F600 <m> aaaa"
          : input.substr(cut + 1);
  try {
    encode_and_decode(input.substr(0, cut), with_replacements(text));
  } catch (const runtime::DataError&) {
  }
  return 0;
}
