// Declares and reads the keys of [device.simulated], most of which ask for one fault.
#include "backends/simulated/options.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string_view>

#include "rt/sdk/error.h"

namespace backends::simulated {
namespace {

constexpr rt_option_spec kMaxDelay = {sizeof(rt_option_spec), RT_OPTION_INTEGER, "max_delay_us",
                                      "50", "longest random delay before each piece of work"};
constexpr rt_option_spec kSeed = {sizeof(rt_option_spec), RT_OPTION_INTEGER, "seed", "1",
                                  "seed of the delays"};
constexpr rt_option_spec kMemory = {sizeof(rt_option_spec), RT_OPTION_INTEGER, "memory_mb", "1024",
                                    "device memory in MiB"};
constexpr rt_option_spec kPoison = {sizeof(rt_option_spec), RT_OPTION_BOOLEAN, "poison", "false",
                                    "fill fresh and freed memory with NaN"};
constexpr rt_option_spec kFailLaunch = {sizeof(rt_option_spec), RT_OPTION_STRING, "fail_launch", "",
                                        "operation whose launches fail"};
constexpr rt_option_spec kFailAfter = {sizeof(rt_option_spec), RT_OPTION_INTEGER, "fail_after",
                                       "-1", "launches that succeed before they fail"};
constexpr rt_option_spec kSlowLaunch = {sizeof(rt_option_spec), RT_OPTION_INTEGER, "slow_launch",
                                        "0", "number of the launch that is slow; 0: none"};
constexpr rt_option_spec kSlowMs = {sizeof(rt_option_spec), RT_OPTION_INTEGER, "slow_ms", "0",
                                    "milliseconds of the slow launch"};
constexpr rt_option_spec kCorrupt = {sizeof(rt_option_spec), RT_OPTION_STRING, "corrupt", "",
                                     "operation that leaves a NaN in its first element"};
constexpr rt_option_spec kWrong = {sizeof(rt_option_spec), RT_OPTION_STRING, "wrong", "",
                                   "operation whose numbers are off by about a tenth"};
constexpr rt_option_spec kLate = {sizeof(rt_option_spec), RT_OPTION_STRING, "late", "",
                                  "operation that runs behind those that were queued after it"};
constexpr rt_option_spec kOverrun = {sizeof(rt_option_spec), RT_OPTION_STRING, "overrun", "",
                                     "operation that writes behind its output"};
constexpr rt_option_spec kRefuse = {sizeof(rt_option_spec), RT_OPTION_STRING, "refuse", "",
                                    "operations that are refused, separated by commas"};
constexpr rt_option_spec kBaseSet = {
    sizeof(rt_option_spec), RT_OPTION_BOOLEAN, "base_set", "false",
    "refuse all operations outside of the base set of plugins/operations.md"};
constexpr rt_option_spec kVarying = {
    sizeof(rt_option_spec), RT_OPTION_STRING, "varying", "",
    "operations that give other bits every time, separated by commas"};
constexpr rt_option_spec kClaim = {sizeof(rt_option_spec), RT_OPTION_STRING, "claim", "0",
                                   "relative error that is claimed for every operation"};
constexpr rt_option_spec kRefuseCapture = {sizeof(rt_option_spec), RT_OPTION_STRING,
                                           "refuse_capture", "",
                                           "operation that cannot be recorded"};
constexpr rt_option_spec kRefuseLaunch = {sizeof(rt_option_spec), RT_OPTION_STRING, "refuse_launch",
                                          "",
                                          "operation whose launches fail before they are queued"};
constexpr const rt_option_spec* kSpecs[] = {
    &kMaxDelay, &kSeed,  &kMemory,        &kPoison,       &kFailLaunch, &kFailAfter,
    &kCorrupt,  &kWrong, &kLate,          &kOverrun,      &kRefuse,     &kVarying,
    &kBaseSet,  &kClaim, &kRefuseCapture, &kRefuseLaunch, &kSlowLaunch, &kSlowMs};

[[noreturn]] void fail(const rt_option& option, const char* expected) {
  throw rt::sdk::Error(
      RT_ERROR_INVALID_ARGUMENT,
      rt::sdk::format("option %s is '%s', expected %s", option.key, option.value, expected),
      RT_SCOPE_DEVICE);
}

int64_t integer(const rt_option& option, int64_t minimum, const char* expected) {
  const std::string_view text = option.value;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < minimum) {
    fail(option, expected);
  }
  return value;
}

bool boolean(const rt_option& option) {
  const std::string_view text = option.value;
  if (text != "true" && text != "false") fail(option, "true or false");
  return text == "true";
}

std::vector<std::string> list(const char* text) {
  std::vector<std::string> names;
  std::istringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  return names;
}

void apply(const rt_option& option, Options& result) {
  const std::string_view key = option.key;
  if (key == kMaxDelay.key) {
    result.max_delay_us = integer(option, 0, "a number of microseconds >= 0");
  } else if (key == kSeed.key) {
    result.seed = static_cast<uint64_t>(integer(option, 0, "a number >= 0"));
  } else if (key == kMemory.key) {
    result.memory_mb = static_cast<uint64_t>(integer(option, 1, "a number of MiB >= 1"));
  } else if (key == kPoison.key) {
    result.poison = boolean(option);
  } else if (key == kFailLaunch.key) {
    result.fail_launch = option.value;
  } else if (key == kFailAfter.key) {
    result.fail_after = integer(option, -1, "a number of launches >= -1");
  } else if (key == kSlowLaunch.key) {
    result.slow_launch = integer(option, 0, "a number of launches >= 0");
  } else if (key == kSlowMs.key) {
    result.slow_ms = integer(option, 0, "a number of milliseconds >= 0");
  } else if (key == kCorrupt.key) {
    result.corrupt = option.value;
  } else if (key == kWrong.key) {
    result.wrong = option.value;
  } else if (key == kLate.key) {
    result.late = option.value;
  } else if (key == kOverrun.key) {
    result.overrun = option.value;
  } else if (key == kRefuse.key) {
    result.refuse = list(option.value);
  } else if (key == kBaseSet.key) {
    result.base_set = boolean(option);
  } else if (key == kVarying.key) {
    result.varying = list(option.value);
  } else if (key == kClaim.key) {
    result.claim = std::strtod(option.value, nullptr);
  } else if (key == kRefuseLaunch.key) {
    result.refuse_launch = option.value;
  } else if (key == kRefuseCapture.key) {
    result.refuse_capture = option.value;
  } else {
    fail(option, "a key that the plugin lists");
  }
}

}  // namespace

Options parse_options(const rt_device_options& options) {
  Options result;
  for (uint32_t i = 0; i < options.option_count; ++i) apply(*options.options[i], result);
  if (!result.fail_launch.empty() && result.fail_after < 0) result.fail_after = 0;
  return result;
}

const rt_option_spec* const* option_specs(void*, uint32_t* count) {
  *count = static_cast<uint32_t>(std::size(kSpecs));
  return kSpecs;
}

}  // namespace backends::simulated
