// Writes strings, numbers and lists as TOML would have them.
#include "runtime/config/format.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace runtime::config {
namespace {

constexpr std::pair<char, const char*> kEscapes[] = {
    {'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\t', "\\t"}, {'\r', "\\r"}};

std::string escaped(char c) {
  for (const auto& [plain, text] : kEscapes)
    if (c == plain) return text;
  const auto code = static_cast<unsigned char>(c);
  if (code >= 0x20 && code != 0x7F) return std::string(1, c);
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\u%04X", code);
  return text.data();
}

}  // namespace

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) result += escaped(c);
  return result + "\"";
}

std::string toml_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  std::string result(text.data(), end);
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

}  // namespace runtime::config
