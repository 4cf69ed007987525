// Replaces the signs of markup.
#include "tools/plot/markup.h"

namespace tools::plot {

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if ((code < 0x20 && c != '\n' && c != '\t') || code == 0x7f) {
      out += "\xEF\xBF\xBD";  // U+FFFD, the replacement character
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace tools::plot
