// Helpers for communicator plugins.
#ifndef RT_SDK_COMMUNICATOR_H_
#define RT_SDK_COMMUNICATOR_H_

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "rt/communicator.h"
#include "rt/plugin.h"
#include "rt/sdk/error.h"

namespace rt::sdk {

// Mask of RT_DTYPE_BIT with every element type of the contract.
inline constexpr uint64_t kAllDtypes = (RT_DTYPE_BIT(RT_INT8) << 1) - RT_DTYPE_BIT(RT_FLOAT32);

// Returns the value of an option, or its default if the host does not give it. The text lives as
// long as `options` and `spec`.
inline const char* option_text(const rt_comm_options& options, const rt_option_spec& spec) {
  for (uint32_t i = 0; i < options.option_count; ++i) {
    if (std::strcmp(options.options[i]->key, spec.key) == 0) return options.options[i]->value;
  }
  return spec.default_value;
}

// The same of a whole number. Throws Error (RT_ERROR_INVALID_ARGUMENT) unless it is from `least` to
// 2^30.
inline int64_t option_number(const rt_comm_options& options, const rt_option_spec& spec,
                             int64_t least = 1) {
  constexpr int64_t kMost = 1 << 30;
  const std::string_view text = option_text(options, spec);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= kMost)
    return value;
  throw Error(RT_ERROR_INVALID_ARGUMENT,
              format("option %s is '%s'; expected a whole number from %lld to %lld", spec.key,
                     std::string(text).c_str(), static_cast<long long>(least),
                     static_cast<long long>(kMost)));
}

// The rows of a plugin that supports every collective with every reduction, also in place.
// `dtypes` and `memory_kinds` are the masks of each row; row i is of the collective i + 1.
inline std::vector<rt_comm_capability> all_collectives(uint64_t dtypes, uint32_t memory_kinds) {
  std::vector<rt_comm_capability> rows;
  for (int32_t kind = RT_ALL_REDUCE; kind <= RT_BARRIER; ++kind) {
    rows.push_back({sizeof(rt_comm_capability), kind, dtypes,
                    1u << RT_SUM | 1u << RT_AVERAGE | 1u << RT_MIN | 1u << RT_MAX, memory_kinds,
                    RT_COMM_IN_PLACE, 0});
  }
  return rows;
}

// Whether a collective of this kind combines elements, and does not only move them.
inline bool reduces(int32_t kind) {
  return kind == RT_ALL_REDUCE || kind == RT_REDUCE_SCATTER || kind == RT_REDUCE;
}
// Whether it moves elements from one rank to another one.
inline bool is_transfer(int32_t kind) { return kind == RT_SEND || kind == RT_RECEIVE; }
// Whether rt_collective.peer names a rank: the root, the destination or the source.
inline bool has_peer(int32_t kind) {
  return is_transfer(kind) || kind == RT_BROADCAST || kind == RT_REDUCE;
}

using Deadline = std::chrono::steady_clock::time_point;

// The time `timeout_ns` nanoseconds from now; at most a year, so that it cannot overflow.
inline Deadline deadline_in(int64_t timeout_ns) {
  constexpr int64_t kYear = int64_t{365} * 24 * 3600 * 1'000'000'000;
  return std::chrono::steady_clock::now() +
         std::chrono::nanoseconds(std::clamp<int64_t>(timeout_ns, 0, kYear));
}

// Checks, for ranks that meet in the host's key-value store, that there is one, and the rank of the
// caller. Throws Error (RT_ERROR_UNAVAILABLE or RT_ERROR_INVALID_ARGUMENT).
inline void expect_meeting_place(const rt_host& host, const rt_comm_options& options) {
  if (host.kv_set == nullptr || host.kv_get == nullptr)
    throw Error(RT_ERROR_UNAVAILABLE, "the host offers no key-value store to meet in");
  if (options.rank >= 0 && options.rank < options.world_size) return;
  throw Error(RT_ERROR_INVALID_ARGUMENT, format("rank %d of %d", options.rank, options.world_size));
}

}  // namespace rt::sdk

#endif  // RT_SDK_COMMUNICATOR_H_
