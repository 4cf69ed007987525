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

// Two ranks in one pass. `out` may be one of the sources, but no element depends on another one.
template <typename Type, int32_t Reduction>
void combine_two(typename Type::Stored* out, const typename Type::Stored* a,
                 const typename Type::Stored* b, std::size_t count) {
  using Computed = typename Type::Computed;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    Computed sum = reduce<Computed, Reduction>(Type::load(a[i]), Type::load(b[i]));
    if constexpr (Reduction == RT_AVERAGE && std::is_integral_v<Computed>) sum /= 2;
    if constexpr (Reduction == RT_AVERAGE && !std::is_integral_v<Computed>) sum *= Computed{0.5};
    out[i] = Type::store(sum);
  }
}

template <typename Type, int32_t Reduction>
void combine(void* out, const void* const* sources, std::size_t ranks, std::size_t count) {
  using Stored = typename Type::Stored;
  using Computed = typename Type::Computed;
  if (ranks == 2) {
    return combine_two<Type, Reduction>(static_cast<Stored*>(out),
                                        static_cast<const Stored*>(sources[0]),
                                        static_cast<const Stored*>(sources[1]), count);
  }
  Computed sums[kBlock];
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t n = std::min(kBlock, count - first);
    const auto* source = static_cast<const Stored*>(sources[0]) + first;
    for (std::size_t i = 0; i < n; ++i) sums[i] = Type::load(source[i]);
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      source = static_cast<const Stored*>(sources[rank]) + first;
      for (std::size_t i = 0; i < n; ++i) {
        sums[i] = reduce<Computed, Reduction>(sums[i], Type::load(source[i]));
      }
    }
    auto* result = static_cast<Stored*>(out) + first;
    for (std::size_t i = 0; i < n; ++i) {
      if constexpr (Reduction == RT_AVERAGE)
        sums[i] = static_cast<Computed>(sums[i] / static_cast<Computed>(ranks));
      result[i] = Type::store(sums[i]);
    }
  }
}

template <typename Type>
Combine choose(int32_t reduction) {
  switch (reduction) {
    case RT_SUM:
      return combine<Type, RT_SUM>;
    case RT_AVERAGE:
      return combine<Type, RT_AVERAGE>;
    case RT_MIN:
      return combine<Type, RT_MIN>;
    case RT_MAX:
      return combine<Type, RT_MAX>;
    default:
      throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                           rt::sdk::format("reduction %d; expected 1 to 4", reduction));
  }
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

Combine combine_of(rt_dtype dtype, int32_t reduction) {
  switch (dtype) {
    case RT_FLOAT32:
      return choose<Plain<float>>(reduction);
    case RT_FLOAT64:
      return choose<Plain<double>>(reduction);
    case RT_FLOAT16:
      return choose<Float16>(reduction);
    case RT_BFLOAT16:
      return choose<BFloat16>(reduction);
    case RT_INT32:
      return choose<Plain<int32_t>>(reduction);
    case RT_INT64:
      return choose<Plain<int64_t>>(reduction);
    case RT_UINT8:
      return choose<Plain<uint8_t>>(reduction);
    case RT_INT8:
      return choose<Plain<int8_t>>(reduction);
    default:
      throw unknown(dtype);
  }
}

}  // namespace collectives::shared_memory
