// Tables of names for the constants of the contract, and durations in a fitting unit.
#include "plugins/host/text.h"

#include <array>
#include <cstdio>

namespace plugins::host {
namespace {

template <std::size_t N>
std::string name_in(const std::array<const char*, N>& names, int32_t value, const char* what) {
  if (value > 0 && static_cast<std::size_t>(value) < N) return names[value];
  return std::string(what) + " " + std::to_string(value);
}

}  // namespace

std::string collective_name(int32_t kind) {
  static constexpr std::array kNames = {"",          "all_reduce", "reduce_scatter", "all_gather",
                                        "broadcast", "reduce",     "all_to_all",     "send",
                                        "receive",   "barrier"};
  static_assert(kNames.size() == RT_BARRIER + 1);
  return name_in(kNames, kind, "collective");
}

std::string reduction_name(int32_t reduction) {
  static constexpr std::array kNames = {"", "sum", "average", "min", "max"};
  static_assert(kNames.size() == RT_MAX + 1);
  return name_in(kNames, reduction, "reduction");
}

std::string dtype_name(rt_dtype dtype) {
  static constexpr std::array kNames = {"",      "float32", "float64", "float16", "bfloat16",
                                        "int32", "int64",   "uint8",   "int8"};
  static_assert(kNames.size() == RT_INT8 + 1);
  return name_in(kNames, dtype, "dtype");
}

std::string seconds_text(std::chrono::duration<double> time) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g s", time.count());
  return text;
}

}  // namespace plugins::host
