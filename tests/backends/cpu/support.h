// Runs one operation of the cpu plugin on arrays in host memory.
#ifndef TESTS_BACKENDS_CPU_SUPPORT_H_
#define TESTS_BACKENDS_CPU_SUPPORT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "plugins/host/device.h"
#include "rt/operations.h"

namespace tests::cpu {

namespace host = plugins::host;
using Floats = std::vector<float>;

inline std::shared_ptr<host::Device> open(const host::DeviceOptions& options = {}) {
  return host::Device::open(host::Plugin::load(CPU_PLUGIN, {}), 0, options);
}

// Runs `body` in a new process, because oneDNN reads its instruction set once per process. The test
// fails unless `body` returns an empty text; the text says what is wrong.
inline void expect_in_own_process(const std::function<std::string()>& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        unsetenv("ONEDNN_MAX_CPU_ISA");
        const std::string wrong = body();
        std::cerr << wrong;
        std::exit(wrong.empty() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

inline rt_tensor_desc tensor(const std::vector<int64_t>& dims, rt_dtype dtype = RT_FLOAT32) {
  return host::make_tensor_desc(dtype, dims);
}

inline int64_t count(const rt_tensor_desc& t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t.rank; ++i) n *= t.dims[i];
  return n;
}

// A fixed sequence of numbers between -0.5 and 0.5.
inline Floats ramp(int64_t n, int64_t seed = 1) {
  Floats values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    values[static_cast<size_t>(i)] = static_cast<float>((i * 37 + seed * 11) % 101) / 101.0f - 0.5f;
  }
  return values;
}

// The buffers of one launch. Every operand is canonical and has 4 bytes per element.
class Buffers {
 public:
  Buffers(host::Device& device, const host::Operation& operation, const host::Kernel& kernel,
          const std::vector<Floats>& inputs)
      : operation_(operation) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      memory_.push_back(device.allocate(device.layout_bytes(operation.inputs[i]) + 64));
      std::copy(inputs[i].begin(), inputs[i].end(), static_cast<float*>(memory_.back().data()));
      inputs_.push_back(memory_.back().data());
    }
    for (const rt_tensor_desc& t : operation.outputs) {
      memory_.push_back(device.allocate(device.layout_bytes(t) + 64));
      outputs_.push_back(memory_.back().data());
    }
    const auto extra = [&](uint64_t bytes) {
      memory_.push_back(device.allocate(bytes + 64));
      return memory_.back().data();
    };
    launch_ = {sizeof(rt_launch),
               static_cast<uint32_t>(inputs_.size()),
               inputs_.data(),
               outputs_.data(),
               static_cast<uint32_t>(outputs_.size()),
               0,
               extra(kernel.info().workspace_bytes),
               extra(kernel.info().saved_bytes)};
  }
  const rt_launch& launch() const { return launch_; }
  Floats output(size_t i) const {
    Floats values(static_cast<size_t>(count(operation_.outputs[i])));
    std::memcpy(values.data(), outputs_[i], values.size() * sizeof(float));
    return values;
  }

 private:
  host::Operation operation_;
  std::vector<host::Memory> memory_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  rt_launch launch_{};
};

// Output 0 of one launch.
inline Floats run(host::Device& device, const host::Operation& operation,
                  const std::vector<Floats>& inputs) {
  host::Kernel kernel = device.create_kernel(operation);
  const Buffers buffers(device, operation, kernel, inputs);
  host::Stream stream = device.create_stream();
  kernel.launch(stream, buffers.launch());
  stream.synchronize();
  return buffers.output(0);
}

// y [4,H,W,64] = conv2d of x [4,H,W,64] with 3x3 weights, padded to the same size.
inline host::Operation convolution(int64_t size = 16, int64_t channels = 64) {
  host::Operation op;
  op.name = RT_OP_CONV2D;
  op.inputs = {tensor({4, size, size, channels}), tensor({channels, 3, 3, channels})};
  op.outputs = {tensor({4, size, size, channels})};
  for (const char* side :
       {RT_ATTR_PAD_TOP, RT_ATTR_PAD_BOTTOM, RT_ATTR_PAD_LEFT, RT_ATTR_PAD_RIGHT}) {
    op.attributes.push_back({side, int64_t{1}});
  }
  return op;
}

inline std::vector<Floats> ramps(const host::Operation& op) {
  std::vector<Floats> values;
  for (const rt_tensor_desc& t : op.inputs) {
    values.push_back(ramp(count(t), static_cast<int64_t>(values.size()) + 1));
  }
  return values;
}

inline host::Operation any_layouts(host::Operation op) {
  for (auto* list : {&op.inputs, &op.outputs}) {
    for (rt_tensor_desc& t : *list) t.layout = t.rank >= 2 ? RT_LAYOUT_ANY : t.layout;
  }
  return op;
}

}  // namespace tests::cpu

#endif  // TESTS_BACKENDS_CPU_SUPPORT_H_
