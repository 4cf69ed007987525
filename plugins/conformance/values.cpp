// Draws numbers by hashing seed and index, and measures the relative error of results.
#include "plugins/conformance/values.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "rt/sdk/float16.h"
#include "rt/sdk/operation.h"

namespace plugins::conformance {
namespace {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014), used as
// a hash of (seed, index).
double uniform(uint64_t seed, uint64_t index) {
  uint64_t z = (seed * 0x9E3779B97F4A7C15u) ^ ((index + 1) * 0xBF58476D1CE4E5B9u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

template <typename T>
Bytes make(int64_t count, const Values& v) {
  Bytes bytes(static_cast<size_t>(count) * sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    double value = v.low + (v.high - v.low) * uniform(v.seed, static_cast<uint64_t>(i));
    if (v.zero_every > 0 && i % v.zero_every == v.zero_every - 1) value = 0.0;
    if (v.special_every > 0 && i / v.special_row % v.special_every == v.special_at) {
      value = v.special;
    }
    if (std::numeric_limits<T>::is_integer) value = std::floor(value);
    const T element = static_cast<T>(value);
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

// Converts float16 or bfloat16 bits to float.
std::vector<float> widen(rt_dtype dtype, const Bytes& bytes) {
  std::vector<float> values;
  for (size_t offset = 0; offset < bytes.size(); offset += sizeof(uint16_t)) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + offset, sizeof(bits));
    values.push_back(dtype == RT_FLOAT16 ? rt::sdk::from_float16(bits)
                                         : rt::sdk::from_bfloat16(bits));
  }
  return values;
}

Bytes narrow(rt_dtype dtype, const Bytes& floats) {
  Bytes bytes;
  for (size_t offset = 0; offset < floats.size(); offset += sizeof(float)) {
    float value;
    std::memcpy(&value, floats.data() + offset, sizeof(value));
    const uint16_t bits =
        dtype == RT_FLOAT16 ? rt::sdk::to_float16(value) : rt::sdk::to_bfloat16(value);
    bytes.insert(bytes.end(),
                 {static_cast<std::byte>(bits & 0xff), static_cast<std::byte>(bits >> 8)});
  }
  return bytes;
}

Bytes as_bytes(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
double norm_error(const Bytes& actual, const Bytes& expected) {
  double difference = 0.0, norm = 0.0;
  for (size_t offset = 0; offset < expected.size(); offset += sizeof(T)) {
    T a, e;
    std::memcpy(&a, actual.data() + offset, sizeof(T));
    std::memcpy(&e, expected.data() + offset, sizeof(T));
    if (!std::isfinite(a) || !std::isfinite(e)) {
      const bool same = a == e || (std::isnan(a) && std::isnan(e));
      if (!same) return std::numeric_limits<double>::infinity();
      continue;
    }
    const double d = static_cast<double>(a) - static_cast<double>(e);
    difference += d * d;
    norm += static_cast<double>(e) * static_cast<double>(e);
  }
  return std::sqrt(difference) / (norm > 0 ? std::sqrt(norm) : 1.0);
}

}  // namespace

Bytes make_values(const rt_tensor_desc& tensor, const Values& values) {
  const int64_t count = rt::sdk::element_count(tensor);
  switch (tensor.dtype) {
    case RT_FLOAT64:
      return make<double>(count, values);
    case RT_INT32:
      return make<int32_t>(count, values);
    case RT_INT64:
      return make<int64_t>(count, values);
    case RT_UINT8:
      return make<uint8_t>(count, values);
    case RT_INT8:
      return make<int8_t>(count, values);
    case RT_FLOAT16:
    case RT_BFLOAT16:
      return narrow(tensor.dtype, make<float>(count, values));
    default:
      return make<float>(count, values);
  }
}

double relative_error(rt_dtype dtype, const Bytes& actual, const Bytes& expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  if (dtype == RT_FLOAT32) return norm_error<float>(actual, expected);
  if (dtype == RT_FLOAT64) return norm_error<double>(actual, expected);
  if (dtype == RT_FLOAT16 || dtype == RT_BFLOAT16) {
    return norm_error<float>(as_bytes(widen(dtype, actual)), as_bytes(widen(dtype, expected)));
  }
  return actual == expected ? 0.0 : std::numeric_limits<double>::infinity();
}

}  // namespace plugins::conformance
