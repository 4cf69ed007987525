// Compares two results as numbers of their type, and gives the largest relative difference.
#include "plugins/validate/difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "rt/sdk/float16.h"
#include "rt/sdk/tensor.h"

namespace plugins::validate {
namespace {

template <typename T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

double number(const std::byte* at, rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT32:
      return read<float>(at);
    case RT_FLOAT64:
      return read<double>(at);
    case RT_FLOAT16:
      return rt::sdk::from_float16(read<uint16_t>(at));
    case RT_BFLOAT16:
      return rt::sdk::from_bfloat16(read<uint16_t>(at));
    default:
      return 0;
  }
}

}  // namespace

std::size_t element_bytes(rt_dtype dtype) {
  return std::max<std::size_t>(rt::sdk::dtype_bytes(dtype), 1);
}

double epsilon_of(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
      return std::ldexp(1, -52);
    case RT_FLOAT32:
      return std::ldexp(1, -23);
    case RT_FLOAT16:
      return std::ldexp(1, -10);
    case RT_BFLOAT16:
      return std::ldexp(1, -7);
    default:
      return 0;
  }
}

double relative_difference(std::span<const std::byte> a, std::span<const std::byte> b,
                           rt_dtype dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return 0;
  if (epsilon_of(dtype) == 0) return kInfinity;
  const std::size_t step = element_bytes(dtype);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i + step <= a.size(); i += step) {
    const double x = number(&a[i], dtype), y = number(&b[i], dtype);
    if (std::isfinite(x) != std::isfinite(y)) return kInfinity;
    if (!std::isfinite(x)) continue;
    difference += (x - y) * (x - y);
    norm += x * x;
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

}  // namespace plugins::validate
