// GPT-2's tokenizer (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019)
// from its two files.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "runtime/tokenizer/pipeline.h"
#include "runtime/tokenizer/visible_bytes.h"

namespace runtime::tokenizer {
namespace {

Vocabulary read_gpt2_vocabulary(const NamedText& file) {
  const nlohmann::json json = nlohmann::json::parse(file.text, nullptr, false);
  if (!json.is_object())
    throw DataError(file.name + ": no JSON object; expected {\"token\": id, ...}");
  Vocabulary vocabulary = read_vocabulary(Element(json, file.name + ": the vocabulary"));
  for (int byte = 0; byte < 256; ++byte) {
    if (vocabulary.find(visible_bytes(std::string(1, static_cast<char>(byte)))) != kNoToken)
      continue;
    throw DataError(file.name + ": no token is the byte " + std::to_string(byte) +
                    " alone; expected vocab.json of GPT-2");
  }
  return vocabulary;
}

// Reads lines "left right", the earliest merge first, after a line with the version.
Merges read_merges(const NamedText& file) {
  Merges merges;
  for (std::size_t at = 0; at < file.text.size();) {
    const std::size_t end = std::min(file.text.find('\n', at), file.text.size());
    std::string line = file.text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.pop_back();  // lines may end as those of Windows do
    if (line.empty() || line.starts_with("#version")) continue;
    const std::size_t space = std::min(line.find(' '), line.size());
    merges.emplace_back(line.substr(0, space), line.substr(std::min(space + 1, line.size())));
  }
  return merges;
}

}  // namespace

TokenizerPointer make_gpt2_tokenizer(const NamedText& vocabulary, const NamedText& merges) {
  Components parts;
  parts.model = make_bpe(read_gpt2_vocabulary(vocabulary), read_merges(merges), merges.name);
  parts.pre_tokenizer = byte_level(false, true);
  parts.decoder = decode_visible_bytes;
  return make_pipeline(std::move(parts));
}

}  // namespace runtime::tokenizer
