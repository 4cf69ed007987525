// Computes the elements that a collective must give, and how far rounding may take them.
#include "plugins/conformance/expectation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "plugins/conformance/execution.h"
#include "rt/sdk/float16.h"
#include "rt/sdk/operation.h"

namespace plugins::conformance {
namespace {

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T>;

// The type in which expected sums are computed. int64 can hold every integer sum, see sent().
template <typename T>
using Wide = std::conditional_t<kIsInteger<T>, int64_t, double>;

template <typename T>
Wide<T> widen(T value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return rt::sdk::from_float16(value.bits);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return rt::sdk::from_bfloat16(value.bits);
  } else {
    return value;
  }
}

template <typename T>
T narrow(double value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return {rt::sdk::to_float16(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return {rt::sdk::to_bfloat16(static_cast<float>(value))};
  } else {
    return static_cast<T>(value);
  }
}

// Largest relative rounding error, that is half the distance of neighbouring numbers: kRounding of
// the element type, kAddition of the type in which the plugin adds.
template <typename T>
constexpr double kRounding = std::is_same_v<T, Float16>    ? 0x1.01p-11
                             : std::is_same_v<T, BFloat16> ? 0x1.01p-8
                             : std::is_same_v<T, double>   ? 0x1p-53
                                                           : 0x1p-24;
template <typename T>
constexpr double kAddition = std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24;
// Absolute rounding error of float16, whose subnormal numbers lie in the range of the values.
template <typename T>
constexpr double kSmallest = std::is_same_v<T, Float16> ? 0x1p-25 : 0.0;

// The values repeat after this many elements. A table of one period then suffices to check a large
// call; because the number is prime, data in the wrong place are still found.
constexpr uint64_t kPeriod = 4093;

// SplitMix64 as a hash.
uint64_t scramble(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

template <typename T>
T sent(int32_t member, int32_t ranks, uint64_t index) {
  const uint64_t random = scramble(index % kPeriod ^ static_cast<uint64_t>(member + 1) << 48);
  if constexpr (kIsInteger<T>) {
    const uint64_t limit =
        std::max<uint64_t>(1, static_cast<uint64_t>(std::numeric_limits<T>::max()) /
                                  (2 * static_cast<uint64_t>(ranks)));
    if constexpr (std::is_unsigned_v<T>) return static_cast<T>(random % (limit + 1));
    return static_cast<T>(static_cast<int64_t>(random % (2 * limit + 1)) -
                          static_cast<int64_t>(limit));
  } else {
    return narrow<T>(static_cast<double>(random >> 12) * 0x1p-51 - 1.0);  // [-1, 1)
  }
}

// Where element `i` of the received data comes from: element `index` that rank `source` sends, or,
// if `source` is -1, the reduction of element `index` over all ranks.
struct Origin {
  int32_t source;
  uint64_t index;
};

Origin origin_of(const Team& team, const Call& call, uint64_t i) {
  const auto rank = static_cast<uint64_t>(team.rank);
  switch (call.kind) {
    case RT_REDUCE_SCATTER:
      return {-1, rank * call.count + i};
    case RT_ALL_GATHER:
      return {static_cast<int32_t>(i / call.count), i % call.count};
    case RT_ALL_TO_ALL:
      return {static_cast<int32_t>(i / call.count), rank * call.count + i % call.count};
    case RT_BROADCAST:
    case RT_RECEIVE:
      return {call.peer, i};
    default:
      return {-1, i};
  }
}

template <typename T>
struct Expected {
  Wide<T> value;
  double tolerance;
};

template <typename T>
Expected<T> reduced(const Team& team, int32_t reduction, uint64_t index) {
  Wide<T> value = 0;
  double magnitude = 0;
  for (int32_t rank = 0; rank < team.size(); ++rank) {
    const Wide<T> term = widen(sent<T>(team.members[rank], team.size(), index));
    magnitude += std::abs(static_cast<double>(term));
    if (rank == 0) {
      value = term;
    } else if (reduction == RT_MIN) {
      value = std::min(value, term);
    } else if (reduction == RT_MAX) {
      value = std::max(value, term);
    } else {
      value += term;
    }
  }
  if (kIsInteger<T> || reduction == RT_MIN || reduction == RT_MAX) {
    if (reduction == RT_AVERAGE) value /= team.size();
    return {value, 0.0};
  }
  if (reduction == RT_AVERAGE) value /= team.size(), magnitude /= team.size();
  return {value, 2 * team.size() * kAddition<T> * magnitude +
                     kRounding<T> * std::abs(static_cast<double>(value)) + kSmallest<T>};
}

// The values depend on the number of ranks: team.size().
template <typename T>
Expected<T> expected_at(const Team& team, const Call& call, uint64_t i) {
  const Origin origin = origin_of(team, call, i);
  if (origin.source < 0) return reduced<T>(team, call.reduction, origin.index);
  return {widen(sent<T>(team.members[origin.source], team.size(), origin.index)), 0.0};
}

template <typename T>
std::optional<std::string> difference_as(const Team& team, const Call& call, const void* received,
                                         uint64_t count) {
  const T* actual = static_cast<const T*>(received);
  const bool parts = call.kind == RT_ALL_GATHER || call.kind == RT_ALL_TO_ALL;
  const uint64_t length = parts ? call.count : count;  // elements of one source
  for (uint64_t first = 0; first < count; first += length) {
    std::vector<Expected<T>> table;
    for (uint64_t i = 0; i < std::min(length, kPeriod); ++i)
      table.push_back(expected_at<T>(team, call, first + i));
    for (uint64_t i = 0; i < length; ++i) {
      const Expected<T>& expected = table[i % kPeriod];
      const Wide<T> value = widen(actual[first + i]);
      if (value == expected.value) continue;
      if constexpr (!kIsInteger<T>) {
        if (std::abs(value - expected.value) <= expected.tolerance) continue;
      }
      return rt::sdk::format("element %llu is %.17g, expected %.17g, allowed difference %g",
                             static_cast<unsigned long long>(first + i), static_cast<double>(value),
                             static_cast<double>(expected.value), expected.tolerance);
    }
  }
  return std::nullopt;
}

// Calls `body` with a null pointer of the element type.
template <typename Body>
auto with_type(rt_dtype dtype, Body&& body) {
  switch (dtype) {
    case RT_FLOAT32:
      return body(static_cast<float*>(nullptr));
    case RT_FLOAT64:
      return body(static_cast<double*>(nullptr));
    case RT_FLOAT16:
      return body(static_cast<Float16*>(nullptr));
    case RT_BFLOAT16:
      return body(static_cast<BFloat16*>(nullptr));
    case RT_INT32:
      return body(static_cast<int32_t*>(nullptr));
    case RT_INT64:
      return body(static_cast<int64_t*>(nullptr));
    case RT_UINT8:
      return body(static_cast<uint8_t*>(nullptr));
    case RT_INT8:
      return body(static_cast<int8_t*>(nullptr));
    default:
      throw Violation("the checks know no " + rt::sdk::to_string(dtype));
  }
}

}  // namespace

void fill_sent(rt_dtype dtype, int32_t member, int32_t ranks, uint64_t count, void* to) {
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* values = static_cast<T*>(to);
    for (uint64_t i = 0; i < count; ++i)
      values[i] = i < kPeriod ? sent<T>(member, ranks, i) : values[i - kPeriod];
  });
}

std::optional<std::string> difference(const Team& team, const Call& call, const void* received,
                                      uint64_t count) {
  return with_type(call.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return difference_as<T>(team, call, received, count);
  });
}

}  // namespace plugins::conformance
