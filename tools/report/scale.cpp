// Decides whether the values of a setting are numbers on a linear or logarithmic axis, or words.
#include "tools/report/scale.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace tools::report {

namespace {

constexpr double kLogarithmicFrom = 8;
constexpr size_t kMostLabels = 8, kMostLabelLength = 18;
// With so few different numbers they are the labels, unless two of them are closer than this.
constexpr size_t kFewNumbers = 6;
constexpr double kLabelsApart = 0.08;

double number_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' || !std::isfinite(value)
             ? std::numeric_limits<double>::quiet_NaN()
             : value;
}

std::string shortened(const std::string& text) {
  if (text.size() <= kMostLabelLength) return text;
  size_t length = kMostLabelLength - 1;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  return text.substr(0, length) + "\xE2\x80\xA6";
}

plot::Axis axis_of(const plot::Range& range) {
  const bool logarithmic = range.low > 0 && range.high >= kLogarithmicFrom * range.low;
  return logarithmic ? plot::logarithmic_axis(range) : plot::linear_axis(range, 6);
}

}  // namespace

std::string unquoted(const std::string& json) {
  if (json.size() < 2 || json.front() != '"' || json.back() != '"') return json;
  return json.substr(1, json.size() - 2);
}

Scale::Scale(const std::vector<std::string>& values) {
  plot::Range range;
  for (const std::string& value : values) {
    if (value.empty()) continue;
    if (std::isnan(number_of(value))) numbers_ = false;
    range.add(number_of(value));
    if (std::find(words_.begin(), words_.end(), value) == words_.end()) words_.push_back(value);
  }
  varies_ = words_.size() > 1;
  if (numbers_) {
    axis_ = axis_of(range);
    add_number_labels();
    return;
  }
  const size_t each = (words_.size() + kMostLabels - 1) / kMostLabels;
  for (size_t i = 0; i < words_.size(); i += std::max<size_t>(each, 1))
    labels_.push_back({place(words_[i]), shortened(unquoted(words_[i]))});
}

void Scale::add_number_labels() {
  const bool few = words_.size() <= kFewNumbers;
  if (few) {
    axis_.ticks.clear();
    for (const std::string& word : words_) axis_.ticks.push_back(number_of(word));
    std::sort(axis_.ticks.begin(), axis_.ticks.end());
  }
  for (const double tick : axis_.ticks) {
    if (!labels_.empty() && axis_.place(tick) < labels_.back().place + kLabelsApart) continue;
    labels_.push_back({axis_.place(tick), few ? to_text(tick, plot::Unit::kNumber)
                                              : to_label(tick, plot::Unit::kNumber, axis_.step)});
  }
}

double Scale::place(const std::string& value) const {
  if (numbers_) return axis_.place(number_of(value));
  const auto found = std::find(words_.begin(), words_.end(), value);
  if (found == words_.end()) return std::numeric_limits<double>::quiet_NaN();
  return (static_cast<double>(found - words_.begin()) + 0.5) / static_cast<double>(words_.size());
}

}  // namespace tools::report
