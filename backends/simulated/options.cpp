// Declares and reads the keys of [device.simulated], most of which ask for one fault.
#include "backends/simulated/options.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "rt/sdk/error.h"

namespace backends::simulated {
namespace {

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

std::vector<int64_t> numbers(const rt_option& option) {
  std::vector<int64_t> result;
  for (const std::string& text : list(option.value))
    result.push_back(
        integer({option.size, 0, option.key, text.c_str()}, 0, "nanoseconds, separated by commas"));
  return result;
}

// A key and what its value sets.
struct Row {
  rt_option_spec spec;
  void (*apply)(const rt_option& option, Options& result);
};

constexpr rt_option_spec spec(int32_t type, const char* key, const char* value, const char* text) {
  return {sizeof(rt_option_spec), type, key, value, text};
}
// A key whose value is the name of an operation.
template <std::string Options::*member>
constexpr Row operation(const char* key, const char* text) {
  return {spec(RT_OPTION_STRING, key, "", text),
          [](const rt_option& option, Options& result) { result.*member = option.value; }};
}
// A key whose value is several of them.
template <std::vector<std::string> Options::*member>
constexpr Row operations(const char* key, const char* text) {
  return {spec(RT_OPTION_STRING, key, "", text),
          [](const rt_option& option, Options& result) { result.*member = list(option.value); }};
}
template <bool Options::*member>
constexpr Row flag(const char* key, const char* text) {
  return {spec(RT_OPTION_BOOLEAN, key, "false", text),
          [](const rt_option& option, Options& result) { result.*member = boolean(option); }};
}
// A key whose value is a time by the clock of the device.
template <int64_t Options::*member>
constexpr Row nanoseconds(const char* key, const char* text) {
  return {spec(RT_OPTION_INTEGER, key, "0", text), [](const rt_option& option, Options& result) {
            result.*member = integer(option, 0, "a number of nanoseconds >= 0");
          }};
}

constexpr Row kRows[] = {
    {spec(RT_OPTION_INTEGER, "max_delay_us", "50",
          "longest random delay before each piece of work"),
     [](const rt_option& option, Options& result) {
       result.max_delay_us = integer(option, 0, "a number of microseconds >= 0");
     }},
    {spec(RT_OPTION_INTEGER, "seed", "1", "seed of the delays"),
     [](const rt_option& option, Options& result) {
       result.seed = static_cast<uint64_t>(integer(option, 0, "a number >= 0"));
     }},
    {spec(RT_OPTION_INTEGER, "memory_mb", "1024", "device memory in MiB"),
     [](const rt_option& option, Options& result) {
       result.memory_mb = static_cast<uint64_t>(integer(option, 1, "a number of MiB >= 1"));
     }},
    flag<&Options::poison>("poison", "fill fresh and freed memory with NaN"),
    operation<&Options::fail_launch>("fail_launch", "operation whose launches fail"),
    {spec(RT_OPTION_INTEGER, "fail_after", "-1", "launches that succeed before they fail"),
     [](const rt_option& option, Options& result) {
       result.fail_after = integer(option, -1, "a number of launches >= -1");
     }},
    operation<&Options::corrupt>("corrupt", "operation that leaves a NaN in its first element"),
    operation<&Options::wrong>("wrong", "operation whose numbers are off by about a tenth"),
    operation<&Options::late>("late", "operation that runs behind those that were queued after it"),
    operation<&Options::overrun>("overrun", "operation that writes behind its output"),
    operations<&Options::refuse>("refuse", "operations that are refused, separated by commas"),
    operations<&Options::varying>(
        "varying", "operations that give other bits every time, separated by commas"),
    flag<&Options::base_set>(
        "base_set", "refuse all operations outside of the base set of plugins/operations.md"),
    {spec(RT_OPTION_STRING, "claim", "0", "relative error that is claimed for every operation"),
     [](const rt_option& option, Options& result) {
       result.claim = std::strtod(option.value, nullptr);
     }},
    operation<&Options::refuse_capture>("refuse_capture", "operation that cannot be recorded"),
    operation<&Options::refuse_launch>("refuse_launch",
                                       "operation whose launches fail before they are queued"),
    {spec(RT_OPTION_INTEGER, "slow_launch", "0", "number of the launch that is slow; 0: none"),
     [](const rt_option& option, Options& result) {
       result.slow_launch = integer(option, 0, "a number of launches >= 0");
     }},
    {spec(RT_OPTION_INTEGER, "slow_ms", "0", "milliseconds of the slow launch"),
     [](const rt_option& option, Options& result) {
       result.slow_ms = integer(option, 0, "a number of milliseconds >= 0");
     }},
    {spec(RT_OPTION_STRING, "algorithm_ns", "",
          "nanoseconds of a launch of each algorithm, by a clock of the device's own"),
     [](const rt_option& option, Options& result) { result.algorithm_ns = numbers(option); }},
    nanoseconds<&Options::load_ns>("load_ns", "that a plan's first launch takes longer"),
    nanoseconds<&Options::wake_ns>("wake_ns",
                                   "that the first launch behind a wait of the host takes longer"),
    nanoseconds<&Options::scatter_ns>("scatter_ns", "that each launch takes longer, at random"),
};

constexpr auto kSpecs = [] {
  std::array<const rt_option_spec*, std::size(kRows)> specs{};
  for (size_t i = 0; i < specs.size(); ++i) specs[i] = &kRows[i].spec;
  return specs;
}();

void apply(const rt_option& option, Options& result) {
  for (const Row& row : kRows)
    if (std::string_view(option.key) == row.spec.key) return row.apply(option, result);
  fail(option, "a key that the plugin lists");
}

}  // namespace

Options parse_options(const rt_device_options& options) {
  Options result;
  for (uint32_t i = 0; i < options.option_count; ++i) apply(*options.options[i], result);
  if (!result.fail_launch.empty() && result.fail_after < 0) result.fail_after = 0;
  return result;
}

std::span<const rt_option_spec* const> option_specs() { return kSpecs; }

}  // namespace backends::simulated
