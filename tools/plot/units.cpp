// Writes numbers with digits, thousands and units.
#include "tools/plot/units.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace tools::plot {

namespace {

std::string printed(const char* format, int digits, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, digits, value);
  return text;
}

// With `digits` significant digits, and thousands apart: 0.418, 12.5, 25,177.
std::string number(double value, int digits) {
  const double size = std::abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return printed("%.*g", digits, value);
  if (size < 1000) return printed("%.*g", digits, value);
  std::string text = printed("%.*f", 0, value);
  const std::ptrdiff_t first = value < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > first; at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

std::string bytes(double value) {
  constexpr std::array<const char*, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t i = 0;
  for (; std::abs(value) >= 1024 && i + 1 < kNames.size(); ++i) value /= 1024;
  return number(value, i == 0 ? 4 : 3) + " " + kNames[i];
}

std::string seconds(double value) {
  const double size = std::abs(value);
  if (size == 0) return "0 s";
  if (size < 1e-6) return number(value * 1e9, 3) + " ns";
  if (size < 1e-3) return number(value * 1e6, 3) + " us";
  if (size < 1) return number(value * 1e3, 3) + " ms";
  if (size < 120) return number(value, 3) + " s";
  if (size >= 1e15) return number(value, 3) + " s";
  const auto whole = static_cast<int64_t>(std::llround(value));
  char text[64];
  if (size < 7200) {
    std::snprintf(text, sizeof(text), "%ld min %02ld s", whole / 60, std::abs(whole % 60));
  } else {
    std::snprintf(text, sizeof(text), "%ld h %02ld min", whole / 3600, std::abs(whole / 60 % 60));
  }
  return text;
}

// 25k, 1.2M.
std::string short_number(double value, double step) {
  const double size = std::abs(value);
  constexpr std::array<std::pair<double, const char*>, 4> kNames = {
      {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [factor, name] : kNames) {
    if (size >= factor && size < 1e15) return short_number(value / factor, step / factor) + name;
  }
  if (value == 0) return "0";
  if (size < 1e-4 || size >= 1e15) return printed("%.*g", 3, value);
  const double places = step > 0 ? std::ceil(-std::log10(step) - 1e-9) : 2;
  std::string text = printed("%.*f", static_cast<int>(std::clamp(places, 0.0, 8.0)), value);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string to_text(double value, Unit unit) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  switch (unit) {
    case Unit::kBytes:
      return bytes(value);
    case Unit::kSeconds:
      return seconds(value);
    case Unit::kFraction:
      return number(value * 100, 3) + " %";
    case Unit::kCount:
    case Unit::kNumber:
      break;
  }
  return number(value, 4);
}

std::string to_label(double value, Unit unit, double step) {
  if (value == 0 && unit != Unit::kFraction) return "0";
  if (unit == Unit::kSeconds && step >= 3600) return short_number(value / 3600, step / 3600) + " h";
  if (unit == Unit::kSeconds && step >= 60) return short_number(value / 60, step / 60) + " min";
  if (unit == Unit::kBytes || unit == Unit::kSeconds) return to_text(value, unit);
  if (unit == Unit::kFraction) return short_number(value * 100, step * 100) + " %";
  return short_number(value, step);
}

std::string exact_text(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

std::string percent_of_side(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g%%", share * 100);
  return text;
}

std::string name_of(Unit unit) {
  constexpr std::array<const char*, 5> kNames = {"number", "count", "bytes", "seconds", "fraction"};
  return kNames.at(static_cast<size_t>(unit));
}

}  // namespace tools::plot
