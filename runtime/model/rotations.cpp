// Computes the angles of rotary positions, and scales them.
#include "runtime/model/rotations.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace runtime::model {

namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

double given_or(double value, double published) { return value > 0 ? value : published; }

double llama3(const Rotations& r, double frequency) {
  const auto length = static_cast<double>(r.original_length);
  const double low = given_or(r.low, 1), high = given_or(r.high, 4);
  const double waves = length * frequency / kTwoPi;  // in the original length
  const double kept = std::clamp((waves - low) / (high - low), 0.0, 1.0);
  return frequency * (kept + (1 - kept) / r.factor);
}

// The pair, as a number between pairs, that turns `times` times in the original length.
double pair_of(const Rotations& r, int64_t columns, double times) {
  const auto length = static_cast<double>(r.original_length);
  return static_cast<double>(columns) * std::log(length / (times * kTwoPi)) /
         (2 * std::log(r.base));
}

double yarn(const Rotations& r, int64_t columns, int64_t pair, double frequency) {
  const auto last = static_cast<double>(columns - 1);
  const double first_pair = std::max(std::floor(pair_of(r, columns, given_or(r.high, 32))), 0.0);
  double last_pair = std::min(std::ceil(pair_of(r, columns, given_or(r.low, 1))), last);
  if (last_pair == first_pair) last_pair += 0.001;
  const double divided =
      std::clamp((static_cast<double>(pair) - first_pair) / (last_pair - first_pair), 0.0, 1.0);
  return frequency * (1 - divided + divided / r.factor);
}

double scaled(const Rotations& r, int64_t columns, int64_t pair, double frequency) {
  switch (r.scaling) {
    case RotationScaling::kNone:
      return frequency;
    case RotationScaling::kLinear:
      return frequency / r.factor;
    case RotationScaling::kLlama3:
      return llama3(r, frequency);
    case RotationScaling::kYarn:
      return yarn(r, columns, pair, frequency);
  }
  return frequency;
}

double length_of_turns(const Rotations& r) {
  if (r.scaling != RotationScaling::kYarn) return 1;
  return given_or(r.attention, r.factor > 1 ? 0.1 * std::log(r.factor) + 1 : 1);
}

}  // namespace

std::vector<double> frequencies(const Rotations& rotations, int64_t columns) {
  std::vector<double> result;
  for (int64_t pair = 0; pair < columns / 2; ++pair) {
    const double exponent = static_cast<double>(2 * pair) / static_cast<double>(columns);
    result.push_back(scaled(rotations, columns, pair, std::pow(rotations.base, -exponent)));
  }
  return result;
}

std::vector<double> turns(const Rotations& rotations, int64_t columns, int64_t places) {
  const std::vector<double> of_pairs = frequencies(rotations, columns);
  const double length = length_of_turns(rotations);
  std::vector<double> result;
  result.reserve(static_cast<size_t>(places * columns));
  for (int64_t place = 0; place < places; ++place) {
    for (const double f : of_pairs)
      result.push_back(length * std::cos(static_cast<double>(place) * f));
    for (const double f : of_pairs)
      result.push_back(length * std::sin(static_cast<double>(place) * f));
  }
  return result;
}

std::vector<double> sinusoids(double base, int64_t columns, int64_t places) {
  std::vector<double> result;
  result.reserve(static_cast<size_t>(places * columns));
  for (int64_t place = 0; place < places; ++place) {
    for (int64_t c = 0; c < columns; ++c) {
      const double exponent = static_cast<double>(c - c % 2) / static_cast<double>(columns);
      const double angle = static_cast<double>(place) * std::pow(base, -exponent);
      result.push_back(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return result;
}

}  // namespace runtime::model
