// Code that the tests of the validation share: validated devices, and the faults that were found.
#ifndef TESTS_PLUGINS_VALIDATE_VALIDATED_H_
#define TESTS_PLUGINS_VALIDATE_VALIDATED_H_

#include <stdlib.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "plugins/host/device.h"
#include "plugins/validate/findings.h"
#include "plugins/validate/validation.h"
#include "rt/operations.h"
#include "tests/plugins/host/support.h"

namespace plugins::host::testing {

using ::testing::HasSubstr;
using validate::kPluginAtFault;
using validate::kRuntimeAtFault;

constexpr int64_t kCount = 1000;
constexpr uint64_t kBytes = kCount * sizeof(float);

// A test that does what no host may do leaves objects of the plugin behind: the validation does not
// pass on a call that would free what still runs. What such a test allocates is no leak.
class LeavesObjectsBehind {
 public:
#if defined(__SANITIZE_ADDRESS__)
  LeavesObjectsBehind() { __lsan_disable(); }
  ~LeavesObjectsBehind() { __lsan_enable(); }
#endif
};

class ValidatedTest : public ::testing::Test {
 protected:
  std::shared_ptr<Device> open(std::map<std::string, std::string> options = {}, int32_t index = 0) {
    return Device::open(Plugin::load(SIMULATED_PLUGIN, {}, validation_), index,
                        {0, std::move(options)});
  }
  // A device with one of the faults of tests/plugins/check/mutants.cpp.
  std::shared_ptr<Device> open_mutant(const char* fault) {
    ::setenv("RUNTIME_MUTANT", fault, 1);
    return Device::open(Plugin::load(MUTANT, {}, validation_), 0);
  }

  // Runs `body`, in which the validation must find what `who` did, described with `text`.
  template <typename Body>
  void expect_finding(const char* who, const char* text, Body&& body) {
    try {
      body();
    } catch (const Error&) {  // the same text; faults of calls that cannot fail have only findings
    }
    const std::vector<std::string> findings = validation_->findings();
    ASSERT_FALSE(findings.empty()) << "expected: " << text;
    EXPECT_THAT(findings.front(), HasSubstr(who));
    EXPECT_THAT(findings.front(), HasSubstr(text));
  }
  void expect_no_finding() { EXPECT_THAT(validation_->findings(), ::testing::IsEmpty()); }

  std::shared_ptr<validate::Validation> validation_ =
      std::make_shared<validate::Validation>([](const std::string&) {});
};

inline rt_error new_error() {
  rt_error error = {};
  error.size = sizeof(error);
  return error;
}

// A device whose tables a test has changed, opened as code without the handles of the host would.
struct FaultyDevice {
  // `good` is the plugin whose tables they were.
  FaultyDevice(validate::Validation& validation, const Plugin& good, const Tables& tables)
      : plugin(validation.wrap("faulty", good.self(), tables, RT_ABI_MINOR)) {
    rt_device_options options{};
    options.size = sizeof(options);
    EXPECT_EQ(api.open(plugin->self(), 0, &options, &device, &error), RT_OK) << error.message;
  }
  ~FaultyDevice() { api.close(device); }
  FaultyDevice(const FaultyDevice&) = delete;
  FaultyDevice& operator=(const FaultyDevice&) = delete;

  const std::unique_ptr<InterposedPlugin> plugin;
  const rt_device_api& api = *plugin->tables().device;
  rt_error error = new_error();
  rt_device* device = nullptr;
};

// y = 2 x
inline Operation scale() {
  Operation op;
  op.name = RT_OP_SCALE;
  op.inputs = {make_tensor_desc(RT_FLOAT32, {kCount})};
  op.outputs = op.inputs;
  op.attributes = {{RT_ATTR_ALPHA, 2.0}};
  return op;
}

inline void launch(Kernel& kernel, Stream& stream, const void* input, void* output) {
  rt_launch launch{};
  launch.size = sizeof(launch);
  launch.inputs = &input;
  launch.input_count = 1;
  launch.outputs = &output;
  launch.output_count = 1;
  kernel.launch(stream, launch);
}

}  // namespace plugins::host::testing

#endif  // TESTS_PLUGINS_VALIDATE_VALIDATED_H_
