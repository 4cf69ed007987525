// The normalizer Precompiled of SentencePiece: a table of texts and what replaces them, as a double
// array (Aoe, "An Efficient Digital Search Algorithm by Using a Double-Array Structure", 1989) in
// the format of the library Darts-clone.
#include <cstring>

#include "runtime/tokenizer/normalizer.h"
#include "runtime/tokenizer/utf8.h"

namespace runtime::tokenizer {
namespace {

// Returns the bytes of a text in base 64 (RFC 4648).
std::string decoded_base64(const Element& element) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string text = element.text();
  std::string bytes;
  uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size() && text[i] != '='; ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) element.refuse("base 64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 > 0) bytes += static_cast<char>((bits >> (6 - 2 * (i % 4))) & 0xFF);
  }
  return bytes;
}

class ReplacementTable {
 public:
  explicit ReplacementTable(const Element& element) {
    const std::string bytes = decoded_base64(element);
    uint32_t size = 0;  // of the array, in bytes, before the replacements
    if (bytes.size() >= sizeof(size)) std::memcpy(&size, bytes.data(), sizeof(size));
    if (bytes.size() < sizeof(size) || size > bytes.size() - sizeof(size) || size == 0 ||
        size % sizeof(uint32_t) != 0)
      element.refuse("a table of SentencePiece");
    units_.resize(size / sizeof(uint32_t));
    std::memcpy(units_.data(), bytes.data() + sizeof(size), size);
    replacements_ = bytes.substr(sizeof(size) + size);
    check_utf8(replacements_, element.where());
  }

  // Appends what replaces the shortest entry with which the text begins. Returns false if none
  // does.
  bool replace(std::string_view text, std::string& out) const {
    std::size_t node = offset(units_[0]);
    for (const char c : text) {
      const auto byte = static_cast<uint8_t>(c);
      if (byte == 0) return false;
      node ^= byte;
      if (node >= units_.size() || (units_[node] & kLabel) != byte) return false;
      const uint32_t unit = units_[node];
      node ^= offset(unit);
      if (((unit >> 8) & 1) == 0) continue;
      const std::size_t at = node < units_.size() ? units_[node] & ~kNoText : replacements_.size();
      const bool within = at < replacements_.size() && (replacements_[at] & 0xC0) == 0x80;
      if (at < replacements_.size() && !within) out += replacements_.c_str() + at;
      return true;
    }
    return false;
  }

 private:
  static constexpr uint32_t kNoText = uint32_t{1} << 31, kLabel = kNoText | 0xFF;

  static std::size_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }

  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a zero byte
};

// SentencePiece looks for a whole cluster of characters only if it has fewer bytes than this.
constexpr std::size_t kLongCluster = 6;

}  // namespace

Normalizer read_precompiled(const Element& element) {
  return [table = ReplacementTable(element.at("precompiled_charsmap"))](Stretch& stretch) {
    std::string text;
    for (std::size_t at = 0, end = 0; at < stretch.text.size(); at = end) {
      end = grapheme_end(stretch.text, at);
      const std::string_view cluster = std::string_view(stretch.text).substr(at, end - at);
      if (cluster.size() < kLongCluster && table.replace(cluster, text)) continue;
      for (std::size_t in = 0; in < cluster.size();) {
        const std::size_t begin = in;
        next_code_point(cluster, in);
        const std::string_view character = cluster.substr(begin, in - begin);
        if (!table.replace(character, text)) text += character;
      }
    }
    stretch.text = std::move(text);
  };
}

}  // namespace runtime::tokenizer
