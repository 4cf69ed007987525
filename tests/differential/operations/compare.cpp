// Compares elements and norms, with rules for infinities, NaN and numbers at the end of a type.
#include "tests/differential/operations/compare.h"

#include <algorithm>
#include <cmath>

#include "rt/sdk/error.h"

namespace differential {
namespace {

using rt::sdk::format;

constexpr double kLarge = 1e12;

std::string element_text(size_t i, double actual, double expected) {
  const auto shown = [](double v) { return std::isnan(v) ? std::abs(v) : v; };  // avoids "-nan"
  return format("element %zu is %.9g, expected %.9g", i, shown(actual), shown(expected));
}

bool same_element(double actual, double expected) {
  if (std::isnan(expected)) return std::isnan(actual);
  return actual == expected && std::signbit(actual) == std::signbit(expected);
}

// The number is so large that it, or a term of it, may or may not overflow the type.
bool at_the_end(rt_dtype dtype, double expected) {
  return std::isfinite(expected) && std::abs(expected) > 0.25 * largest_number(dtype);
}

// True for NaN where NaN is expected, for the expected infinity, and for finite where finite is
// expected.
bool same_kind(rt_dtype dtype, double actual, double expected, NotFinite not_finite) {
  if (at_the_end(dtype, expected)) return true;
  if (not_finite == NotFinite::kMaySpread && !std::isfinite(actual)) return true;
  if (not_finite == NotFinite::kAny) return std::isfinite(actual) == std::isfinite(expected);
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::isfinite(actual);
}

// Elements that are compared by norm: those above 1e12 in magnitude, the others, or all.
enum class Group { kSmall, kLarge, kAll };

bool counts(rt_dtype dtype, double actual, double expected, Group group) {
  return std::isfinite(expected) && !at_the_end(dtype, expected) && std::isfinite(actual) &&
         (group == Group::kAll || (std::abs(expected) > kLarge) == (group == Group::kLarge));
}

struct Norms {
  double error = 0, expected = 0;
  size_t count = 0;
};

double square(double value) { return value * value; }

Norms norms_of(rt_dtype dtype, const std::vector<double>& actual,
               const std::vector<double>& expected, Group group) {
  Norms n;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!counts(dtype, actual[i], expected[i], group)) continue;
    n.error += square(actual[i] - expected[i]);
    n.expected += square(expected[i]);
    ++n.count;
  }
  return {std::sqrt(n.error), std::sqrt(n.expected), n.count};
}

// The norm of `other` minus `expected` (or of `other` alone), over the elements of the group.
double norm_of(rt_dtype dtype, const std::vector<double>& actual,
               const std::vector<double>& expected, Group group, const std::vector<double>& other,
               bool less_expected) {
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!counts(dtype, actual[i], expected[i], group)) continue;
    sum += square(other[i] - (less_expected ? expected[i] : 0.0));
  }
  return std::sqrt(sum);
}

// The element with the largest error.
std::string worst_element(rt_dtype dtype, const std::vector<double>& actual,
                          const std::vector<double>& expected, Group group) {
  size_t worst = 0;
  double most = -1;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!counts(dtype, actual[i], expected[i], group)) continue;
    const double off = std::abs(actual[i] - expected[i]);
    if (off > most) most = off, worst = i;
  }
  return element_text(worst, actual[worst], expected[worst]);
}

std::optional<std::string> norm_difference(rt_dtype dtype, const std::vector<double>& actual,
                                           const std::vector<double>& expected, Group group,
                                           const Allowance& allowance) {
  const Norms n = norms_of(dtype, actual, expected, group);
  // The device may have flushed subnormal numbers to zero.
  const double flushed =
      std::sqrt(static_cast<double>(n.count)) * 2 * smallest_normal_number(dtype);
  const double eight_bits = 8 * (dtype == RT_FLOAT64 ? 0x1p-53 : 0x1p-24);
  const double allowed =
      std::max(allowance.tolerance * n.expected, eight_bits * allowance.terms) + flushed;
  if (n.error <= allowed) return std::nullopt;
  const auto norm = [&](const std::vector<double>& other, bool less_expected) {
    return norm_of(dtype, actual, expected, group, other, less_expected);
  };
  if (allowance.magnitudes && n.error <= eight_bits * norm(allowance.magnitudes(), false) + flushed)
    return std::nullopt;
  const double disturbance = norm(allowance.disturbed(), true);
  // Where a disturbance changes a choice, the rest of the result is off by the tolerance all the
  // same.
  if (n.error <= disturbance + allowed || std::isnan(disturbance)) return std::nullopt;
  const double size = n.expected > 0 ? n.expected : 1;
  return format("off by %.3g in the norm, allowed are %.3g (%.3g by rounding of the operands); ",
                n.error / size, allowance.tolerance, disturbance / size) +
         worst_element(dtype, actual, expected, group);
}

}  // namespace

std::optional<std::string> difference(rt_dtype dtype, const Bytes& actual_bytes,
                                      const std::vector<double>& expected,
                                      const Allowance& allowance) {
  const std::vector<double> actual = decode(dtype, actual_bytes);
  if (actual.size() != expected.size())
    return format("has %zu elements, expected %zu", actual.size(), expected.size());
  const bool exact = allowance.exact || !is_floating(dtype);
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool right = exact ? same_element(actual[i], rounded_to(dtype, expected[i]))
                             : same_kind(dtype, actual[i], expected[i], allowance.not_finite);
    if (!right) return element_text(i, actual[i], expected[i]);
  }
  if (exact) return std::nullopt;
  if (allowance.mixes_all) return norm_difference(dtype, actual, expected, Group::kAll, allowance);
  const auto small = norm_difference(dtype, actual, expected, Group::kSmall, allowance);
  return small ? small : norm_difference(dtype, actual, expected, Group::kLarge, allowance);
}

}  // namespace differential
