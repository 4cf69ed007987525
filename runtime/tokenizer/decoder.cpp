// The decoders that can be read, by their names.
#include "runtime/tokenizer/decoder.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "runtime/tokenizer/pattern.h"
#include "runtime/tokenizer/utf8.h"
#include "runtime/tokenizer/visible_bytes.h"

namespace runtime::tokenizer {
namespace {

// Returns the bytes that a token stands for; a token with another character stands for itself.
std::string hidden_bytes(const std::string& token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const int byte = byte_of(next_code_point(token, at));
    if (byte < 0) return token;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

Decoder read_byte_level_decoder(const Element&) { return decode_visible_bytes; }

Decoder read_bpe_decoder(const Element& element) {
  return [suffix = Pattern(element.text("suffix", "</w>"))](std::vector<std::string>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = suffix.replaced(tokens[i], i + 1 < tokens.size() ? " " : "");
  };
}

// Undoes what a tokenizer of English puts apart.
std::string cleaned_up(std::string text) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = Pattern(std::string(from)).replaced(text, to);
  return text;
}

Decoder read_word_piece_decoder(const Element& element) {
  return [prefix = element.text("prefix", "##"),
          cleans = element.flag("cleanup", true)](std::vector<std::string>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 && token.starts_with(prefix))
        token.erase(0, prefix.size());
      else if (i > 0)
        token.insert(0, " ");
      if (cleans) token = cleaned_up(token);
    }
  };
}

Decoder read_metaspace_decoder(const Element& element) {
  const std::string scheme =
      element.text("prepend_scheme", element.flag("add_prefix_space", true) ? "always" : "never");
  return [mark = Pattern(element.text("replacement", "\u2581")),
          prepends = scheme != "never"](std::vector<std::string>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = mark.replaced(tokens[i], i == 0 && prepends ? "" : " ");
  };
}

// Returns the byte of a token like "<0xE4>"; -1: it is another token.
int byte_of_token(const std::string& token) {
  unsigned byte = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return error == std::errc() && end == token.data() + 5 ? static_cast<int>(byte) : -1;
}

bool is_utf8(const std::string& bytes) { return with_replacements(bytes) == bytes; }

// Tokens of bytes become text, or U+FFFD for each byte if they are not UTF-8 together.
Decoder read_byte_fallback(const Element&) {
  return [](std::vector<std::string>& tokens) {
    std::vector<std::string> texts;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (is_utf8(bytes))
        texts.push_back(bytes);
      else
        texts.insert(texts.end(), bytes.size(), "\uFFFD");
      bytes.clear();
    };
    for (const std::string& token : tokens) {
      const int byte = byte_of_token(token);
      if (byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      texts.push_back(token);
    }
    flush();
    tokens = std::move(texts);
  };
}

Decoder read_fuse(const Element&) {
  return [](std::vector<std::string>& tokens) {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens = {std::move(all)};
  };
}

Decoder read_replace_decoder(const Element& element) {
  return [pattern = read_pattern(element.at("pattern")),
          content = element.at("content").text()](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) token = pattern.replaced(token, content);
  };
}

Decoder read_strip_decoder(const Element& element) {
  constexpr int64_t kMost = 1 << 20;
  const auto start = element.at("start").number(0, kMost),
             stop = element.at("stop").number(0, kMost);
  const std::string content = element.at("content").text();
  if (content.empty()) element.at("content").refuse("a character");
  return [=](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) {
      int64_t left = start, right = stop;
      std::size_t begin = 0;
      std::string_view text = token;
      while (left-- > 0 && text.substr(begin).starts_with(content)) begin += content.size();
      text = text.substr(begin);
      while (right-- > 0 && text.ends_with(content)) text.remove_suffix(content.size());
      token = std::string(text);
    }
  };
}

Decoder read_decoder_sequence(const Element& element) {
  std::vector<Decoder> steps;
  for (const Element& step : element.at("decoders").list()) steps.push_back(read_decoder(step));
  return [steps = std::move(steps)](std::vector<std::string>& tokens) {
    for (const Decoder& step : steps)
      if (step) step(tokens);
  };
}

constexpr ComponentRow<Decoder> kDecoders[] = {
    {"ByteLevel", read_byte_level_decoder}, {"BPEDecoder", read_bpe_decoder},
    {"WordPiece", read_word_piece_decoder}, {"Metaspace", read_metaspace_decoder},
    {"ByteFallback", read_byte_fallback},   {"Fuse", read_fuse},
    {"Replace", read_replace_decoder},      {"Strip", read_strip_decoder},
    {"Sequence", read_decoder_sequence}};

}  // namespace

void decode_visible_bytes(std::vector<std::string>& tokens) {
  for (std::string& token : tokens) token = hidden_bytes(token);
}

Decoder read_decoder(const Element& element) {
  if (element.is_null()) return nullptr;
  return element.row(kDecoders).read(element);
}

}  // namespace runtime::tokenizer
