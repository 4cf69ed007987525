// Compares a gpu backend with the reference: every conformance case, one test per operation and
// type.
#include "plugins/conformance/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;

// The operation and type that one test runs.
struct Kind {
  std::string operation;
  rt_dtype dtype;
  bool operator==(const Kind&) const = default;
};
std::ostream& operator<<(std::ostream& to, const Kind& kind) {
  return to << kind.operation << '_' << rt::sdk::to_string(kind.dtype);
}

// The gpu backends have no convolution together with its pooling.
bool is_missing(const std::string& operation) {
  return operation == RT_OP_CONV2D_POOL2D || operation == RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS;
}

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const conformance::Case& c : conformance::all_cases()) {
    if (is_missing(c.operation.name)) continue;
    const Kind kind{c.operation.name, c.dtype};
    if (std::find(all.begin(), all.end(), kind) == all.end()) all.push_back(kind);
  }
  return all;
}

// RUNTIME_TEST_PLUGINS names the folder of the plugins, for a build that was moved.
std::shared_ptr<host::Plugin> load(const std::filesystem::path& built) {
  const char* const folder = std::getenv("RUNTIME_TEST_PLUGINS");
  return host::Plugin::load(folder == nullptr ? built : folder / built.filename(), {});
}

std::shared_ptr<host::Plugin> plugin() { return load(GPU_PLUGIN); }

// RUNTIME_TEST_DEVICE_OPTIONS="vendor_libraries=false,tf32=true" sets options of [device.<plugin>];
// tools/gpu uses it.
host::DeviceOptions options_of_environment() {
  host::DeviceOptions options;
  const char* const text = std::getenv("RUNTIME_TEST_DEVICE_OPTIONS");
  std::istringstream list(text == nullptr ? "" : text);
  for (std::string item; std::getline(list, item, ',');) {
    const size_t at = item.find('=');
    options.options[item.substr(0, at)] = at == std::string::npos ? "" : item.substr(at + 1);
  }
  return options;
}

class GpuConformance : public testing::TestWithParam<Kind> {};

TEST_P(GpuConformance, AgreesWithTheReference) {
  const host::DeviceInfo found = host::list_devices(*plugin()).at(0);
  if (!found.usable()) GTEST_SKIP() << found.properties.unusable_reason;
  const auto device = host::Device::open(plugin(), 0, options_of_environment());
  const auto reference = host::Device::open(load(REFERENCE_PLUGIN), 0, {});
  auto cases = conformance::cases_of(GetParam().operation, *device);
  std::erase_if(cases, [](const auto& c) { return c.dtype != GetParam().dtype; });
  EXPECT_FALSE(cases.empty()) << "the device does not say that it computes in this type";
  for (const conformance::Case& c : cases) {
    const conformance::Result result = run_case(*device, *reference, c);
    EXPECT_EQ(result.outcome, conformance::Outcome::kPassed) << c.name << ": " << result.detail;
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, GpuConformance, testing::ValuesIn(kinds()),
                         [](const auto& info) { return testing::PrintToString(info.param); });

TEST(GpuConformanceCount, EveryOperationInFourTypes) {
  const std::string text = conformance::count_text(conformance::all_cases());
  std::cout << "conformance: " << text << '\n';
  const auto operations = conformance::covered_operations().size();
  EXPECT_EQ(text.find(std::to_string(operations) + " operations x 4 types"), 0u) << text;
}

}  // namespace
