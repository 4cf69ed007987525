// What plans tell of their kernels (rt_plan_info.work), compared with the launches of the plugin's
// real kernels, which a double of the CUDA runtime counts instead of running them.
#include <gtest/gtest.h>

#include "plugins/conformance/conformance.h"
#include "plugins/host/error.h"
#include "rt/gpu.h"
#include "rt/operations.h"
#include "tests/doubles/cudart.h"

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;

std::shared_ptr<host::Device> open() {
  return host::Device::open(host::Plugin::load(CUDA_LAUNCHES_DOUBLE, {}), 0, {0, {}});
}

int64_t launches_on(const host::Stream& stream) {
  const auto* gpu = reinterpret_cast<const rt_gpu_stream*>(stream.get());
  return static_cast<const CUstream_st*>(gpu->native)->launches;
}

// Zeros for all operands of a plan, and its workspace.
class Operands {
 public:
  Operands(const std::shared_ptr<host::Device>& device, const host::Operation& op,
           const rt_plan_info& info)
      : device_(device) {
    for (const rt_tensor_desc& t : op.inputs) inputs_.push_back(buffer(device_->layout_bytes(t)));
    for (const rt_tensor_desc& t : op.outputs) outputs_.push_back(buffer(device_->layout_bytes(t)));
    launch_.size = sizeof(launch_);
    launch_.inputs = inputs_.data();
    launch_.input_count = static_cast<uint32_t>(inputs_.size());
    launch_.outputs = outputs_.data();
    launch_.output_count = static_cast<uint32_t>(outputs_.size());
    launch_.workspace = buffer(info.workspace_bytes);
  }
  rt_launch& launch() { return launch_; }

 private:
  void* buffer(uint64_t bytes) {
    memory_.push_back(device_->allocate(std::max<uint64_t>(bytes, 16)));
    return memory_.back().data();
  }

  std::shared_ptr<host::Device> device_;
  std::vector<host::Memory> memory_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  rt_launch launch_{};
};

// Creates the plan of a candidate, launches it once, and expects as many launches as it tells.
void check(const std::shared_ptr<host::Device>& device, host::Operation op,
           const rt_candidate& candidate, const host::Kernel* forward, const std::string& name) {
  for (size_t i = 0; i < op.inputs.size(); ++i) op.inputs[i].layout = candidate.input_layouts[i];
  for (size_t i = 0; i < op.outputs.size(); ++i) op.outputs[i].layout = candidate.output_layouts[i];
  op.algorithm = candidate.algorithm;
  op.forward = forward == nullptr ? nullptr : forward->get();
  host::Kernel kernel = device->create_kernel(op);
  Operands operands(device, op, kernel.info());
  const uint64_t saved = forward == nullptr ? 0 : forward->info().saved_bytes;
  const host::Memory memory =
      device->allocate(std::max<uint64_t>({saved, kernel.info().saved_bytes, 16}));
  operands.launch().saved = memory.data();
  host::Stream stream = device->create_stream();
  kernel.launch(stream, operands.launch());
  EXPECT_EQ(launches_on(stream), static_cast<int64_t>(kernel.work().size()))
      << name << ", " << candidate.implementation << ": launches, and kernels that the plan tells";
}

class Launches : public testing::TestWithParam<std::string> {};

TEST_P(Launches, AreThoseThatThePlanTells) {
  const auto device = open();
  size_t plans = 0;
  for (const conformance::Case& c : conformance::cases_of(GetParam())) {
    host::Kernel forward;
    if (c.forward) forward = device->create_kernel(*c.forward);
    host::Operation op = c.operation;
    op.forward = forward.get();
    const host::Support support = device->query(op);
    if (support.level == RT_SUPPORT_REFUSED || support.post_ops_fused < op.post_ops.size())
      continue;
    for (const rt_candidate& candidate : support.candidates)
      check(device, op, candidate, forward ? &forward : nullptr, c.name);
    plans += support.candidates.size();
  }
  EXPECT_GT(plans, 0u);
}

// All operations but the convolution together with its pooling, which the backend does not have.
std::vector<std::string> operations() {
  std::vector<std::string> names = conformance::covered_operations();
  std::erase_if(names,
                [](const std::string& name) { return name.starts_with(RT_OP_CONV2D_POOL2D); });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Operations, Launches, testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param; });

}  // namespace
