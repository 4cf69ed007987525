// Adds or compares a block of elements of all ranks in their order, in a wider type for 16 bits.
#include "collectives/local/reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "rt/sdk/error.h"
#include "rt/sdk/float16.h"
#include "rt/sdk/operation.h"

namespace collectives::local {
namespace {

// Results are computed in blocks of this many elements, which stay in the first-level cache.
constexpr std::size_t kBlock = 1024;

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <typename T>
constexpr bool kIs16Bit = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// The type in which elements of type T are added.
template <typename T>
using Wide = std::conditional_t<kIs16Bit<T>, float, T>;

float widen(Float16 value) { return rt::sdk::from_float16(value.bits); }
float widen(BFloat16 value) { return rt::sdk::from_bfloat16(value.bits); }
template <typename T>
T widen(T value) {
  return value;
}

template <typename T>
T narrow(Wide<T> value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return {rt::sdk::to_float16(value)};
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return {rt::sdk::to_bfloat16(value)};
  } else {
    return value;
  }
}

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {  // wraps around, also for signed T
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return a < b ? b : a;
  }
};

template <typename T>
const T* at(const void* buffer, std::size_t offset) {
  return static_cast<const T*>(buffer) + offset;
}

template <typename T, typename Operation>
void combine(std::span<const void* const> sources, std::size_t offset, std::size_t count,
             Wide<T>* result) {
  const T* first = at<T>(sources[0], offset);
  if (sources.size() == 1) {
    for (std::size_t i = 0; i < count; ++i) result[i] = widen(first[i]);
    return;
  }
  const T* second = at<T>(sources[1], offset);
  for (std::size_t i = 0; i < count; ++i) {
    result[i] = Operation::apply(widen(first[i]), widen(second[i]));
  }
  for (const void* source : sources.subspan(2)) {
    const T* next = at<T>(source, offset);
    for (std::size_t i = 0; i < count; ++i) {
      result[i] = Operation::apply(result[i], widen(next[i]));
    }
  }
}

template <typename T>
void store(const Wide<T>* result, std::size_t offset, std::size_t count,
           std::span<void* const> targets) {
  if constexpr (kIs16Bit<T>) {
    T rounded[kBlock];
    for (std::size_t i = 0; i < count; ++i) rounded[i] = narrow<T>(result[i]);
    for (void* target : targets) {
      std::memcpy(static_cast<T*>(target) + offset, rounded, count * sizeof(T));
    }
  } else {
    for (void* target : targets) {
      std::memcpy(static_cast<T*>(target) + offset, result, count * sizeof(T));
    }
  }
}

template <typename T, typename Operation>
void reduce_as(std::span<const void* const> sources, std::span<void* const> targets,
               std::size_t count, bool average) {
  Wide<T> result[kBlock];
  const auto ranks = static_cast<Wide<T>>(sources.size());
  for (std::size_t offset = 0; offset < count; offset += kBlock) {
    const std::size_t part = std::min(kBlock, count - offset);
    combine<T, Operation>(sources, offset, part, result);
    if (average) {
      for (std::size_t i = 0; i < part; ++i) result[i] = static_cast<Wide<T>>(result[i] / ranks);
    }
    store<T>(result, offset, part, targets);
  }
}

template <typename T>
void reduce_type(int32_t reduction, std::span<const void* const> sources,
                 std::span<void* const> targets, std::size_t count) {
  switch (reduction) {
    case RT_MIN:
      return reduce_as<T, Min>(sources, targets, count, false);
    case RT_MAX:
      return reduce_as<T, Max>(sources, targets, count, false);
    default:
      return reduce_as<T, Sum>(sources, targets, count, reduction == RT_AVERAGE);
  }
}

}  // namespace

void reduce(rt_dtype dtype, int32_t reduction, std::span<const void* const> sources,
            std::span<void* const> targets, std::size_t count) {
  switch (dtype) {
    case RT_FLOAT32:
      return reduce_type<float>(reduction, sources, targets, count);
    case RT_FLOAT64:
      return reduce_type<double>(reduction, sources, targets, count);
    case RT_FLOAT16:
      return reduce_type<Float16>(reduction, sources, targets, count);
    case RT_BFLOAT16:
      return reduce_type<BFloat16>(reduction, sources, targets, count);
    case RT_INT32:
      return reduce_type<int32_t>(reduction, sources, targets, count);
    case RT_INT64:
      return reduce_type<int64_t>(reduction, sources, targets, count);
    case RT_UINT8:
      return reduce_type<uint8_t>(reduction, sources, targets, count);
    case RT_INT8:
      return reduce_type<int8_t>(reduction, sources, targets, count);
    default:
      throw rt::sdk::Error(RT_ERROR_UNSUPPORTED, "local: no sums of " + rt::sdk::to_string(dtype));
  }
}

}  // namespace collectives::local
