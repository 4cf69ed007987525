// Combines blocks of elements of all ranks, for each type and reduction.
#include "collectives/shared_memory/combine.h"

#include <algorithm>
#include <type_traits>

#include "rt/sdk/error.h"
#include "rt/sdk/float16.h"
#include "rt/sdk/tensor.h"

namespace collectives::shared_memory {
namespace {

// Elements that are combined at a time; their accumulators stay in the first-level cache.
constexpr std::size_t kBlock = 1024;

// How an element is stored, and in which type it is computed.
template <typename T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

template <float (*From)(uint16_t), uint16_t (*To)(float)>
struct Half {
  using Stored = uint16_t;
  using Computed = float;
  static float load(uint16_t bits) { return From(bits); }
  static uint16_t store(float value) { return To(value); }
};
using Float16 = Half<rt::sdk::from_float16, rt::sdk::to_float16>;
using BFloat16 = Half<rt::sdk::from_bfloat16, rt::sdk::to_bfloat16>;

// Adds integers as unsigned ones, which wrap around; signed overflow would be undefined.
template <typename T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(
        static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else {
    return a + b;
  }
}

template <typename T, int32_t Reduction>
T reduce(T a, T b) {
  if constexpr (Reduction == RT_MIN) return std::min(a, b);
  if constexpr (Reduction == RT_MAX) return std::max(a, b);
  return add(a, b);
}

// Two sources in one pass. `out` may be one of the sources, but no element depends on another one.
template <typename From, typename To, int32_t Reduction>
void combine_two(typename To::Stored* out, const typename From::Stored* a,
                 const typename From::Stored* b, std::size_t count) {
  using Computed = typename From::Computed;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    Computed sum = reduce<Computed, Reduction>(From::load(a[i]), From::load(b[i]));
    if constexpr (Reduction == RT_AVERAGE && std::is_integral_v<Computed>) sum /= 2;
    if constexpr (Reduction == RT_AVERAGE && !std::is_integral_v<Computed>) sum *= Computed{0.5};
    out[i] = To::store(sum);
  }
}

template <typename From, typename To, int32_t Reduction>
void combine(void* out, const void* const* sources, std::size_t count_of_sources, std::size_t count,
             std::size_t ranks) {
  using Read = typename From::Stored;
  using Computed = typename From::Computed;
  // The number of ranks may not fit into the type of small integers.
  using Divisor = std::conditional_t<std::is_integral_v<Computed>, int64_t, Computed>;
  if (count_of_sources == 2 && (Reduction != RT_AVERAGE || ranks == 2)) {
    return combine_two<From, To, Reduction>(static_cast<typename To::Stored*>(out),
                                            static_cast<const Read*>(sources[0]),
                                            static_cast<const Read*>(sources[1]), count);
  }
  Computed sums[kBlock];
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t n = std::min(kBlock, count - first);
    const auto* source = static_cast<const Read*>(sources[0]) + first;
    for (std::size_t i = 0; i < n; ++i) sums[i] = From::load(source[i]);
    for (std::size_t s = 1; s < count_of_sources; ++s) {
      source = static_cast<const Read*>(sources[s]) + first;
      for (std::size_t i = 0; i < n; ++i) {
        sums[i] = reduce<Computed, Reduction>(sums[i], From::load(source[i]));
      }
    }
    auto* result = static_cast<typename To::Stored*>(out) + first;
    for (std::size_t i = 0; i < n; ++i) {
      if constexpr (Reduction == RT_AVERAGE)
        sums[i] = static_cast<Computed>(sums[i] / static_cast<Divisor>(ranks));
      result[i] = To::store(sums[i]);
    }
  }
}

template <typename From, typename To>
Combine choose(int32_t reduction) {
  switch (reduction) {
    case RT_SUM:
      return combine<From, To, RT_SUM>;
    case RT_AVERAGE:
      return combine<From, To, RT_AVERAGE>;
    case RT_MIN:
      return combine<From, To, RT_MIN>;
    case RT_MAX:
      return combine<From, To, RT_MAX>;
    default:
      throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                           rt::sdk::format("reduction %d; expected 1 to 4", reduction));
  }
}

template <typename Type>
Combine choose(int32_t reduction, Stage stage) {
  using Partial = Plain<typename Type::Computed>;
  if (stage == Stage::kFirst)
    return choose<Type, Partial>(reduction == RT_AVERAGE ? RT_SUM : reduction);
  return stage == Stage::kLast ? choose<Partial, Type>(reduction) : choose<Type, Type>(reduction);
}

rt::sdk::Error unknown(rt_dtype dtype) {
  return {RT_ERROR_UNSUPPORTED, rt::sdk::format("element type %d; expected 1 to 8", dtype)};
}

}  // namespace

std::size_t bytes_of(rt_dtype dtype) {
  const uint64_t bytes = rt::sdk::dtype_bytes(dtype);
  if (bytes == 0) throw unknown(dtype);
  return bytes;
}

std::size_t partial_bytes_of(rt_dtype dtype) {
  const bool is_half = dtype == RT_FLOAT16 || dtype == RT_BFLOAT16;
  return bytes_of(is_half ? RT_FLOAT32 : dtype);
}

Combine combine_of(rt_dtype dtype, int32_t reduction, Stage stage) {
  switch (dtype) {
    case RT_FLOAT32:
      return choose<Plain<float>>(reduction, stage);
    case RT_FLOAT64:
      return choose<Plain<double>>(reduction, stage);
    case RT_FLOAT16:
      return choose<Float16>(reduction, stage);
    case RT_BFLOAT16:
      return choose<BFloat16>(reduction, stage);
    case RT_INT32:
      return choose<Plain<int32_t>>(reduction, stage);
    case RT_INT64:
      return choose<Plain<int64_t>>(reduction, stage);
    case RT_UINT8:
      return choose<Plain<uint8_t>>(reduction, stage);
    case RT_INT8:
      return choose<Plain<int8_t>>(reduction, stage);
    default:
      throw unknown(dtype);
  }
}

}  // namespace collectives::shared_memory
