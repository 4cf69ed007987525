// Convolutions, matrix products and reorders by oneDNN, and the layouts that these want.
#ifndef BACKENDS_CPU_ONEDNN_PROVIDER_H_
#define BACKENDS_CPU_ONEDNN_PROVIDER_H_

#include <memory>

#include "backends/cpu/engine.h"
#include "backends/cpu/layouts.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

// What the makers of oneDNN plans share. Thread-safe.
struct OnednnContext {
  Engine& engine;
  dnnl::engine onednn;
  Layouts& layouts;
};

class OnednnProvider : public Provider {
 public:
  OnednnProvider(Engine& engine, Layouts& layouts);
  Answer query(const Operation& op) override;
  std::unique_ptr<Plan> create(const Operation& op, uint32_t algorithm) override;
  std::optional<uint64_t> layout_bytes(const rt_tensor_desc& tensor) const override;
  std::optional<std::string> layout_name(const rt_tensor_desc& tensor) const override;
  bool layout_is_elementwise(const rt_tensor_desc& tensor) const override;
  std::optional<ChannelOrder> channel_order(const rt_tensor_desc& tensor) const override;

 private:
  OnednnContext context_;
};

// User scratchpad, and the attributes every primitive of ours has.
dnnl::primitive_attr default_attributes();

// convolution.cpp
Answer query_convolution(const OnednnContext& context, const Operation& op);
std::unique_ptr<Plan> create_convolution(const OnednnContext& context, const Operation& op,
                                         uint32_t algorithm);
// matmul.cpp
Answer query_matmul(const OnednnContext& context, const Operation& op);
std::unique_ptr<Plan> create_matmul(const OnednnContext& context, const Operation& op,
                                    uint32_t algorithm);

// The post-operations that a primitive itself does: a bias that comes first, then residual adds.
// `taken`: how many went into `attributes`; the others are left to PostChain. Activations always
// are: oneDNN's relu and sigmoid make a number of NaN in some implementations, and its gelus lose
// the digits of small results.
struct PrimitivePostOps {
  int bias_input = -1;  // of the description; -1: none
  int sum_input = -1;   // output 0 must hold this operand before the launch
  uint32_t taken = 0;
  dnnl::primitive_attr attributes;
  std::vector<int> binary_inputs;     // operand of each binary post-operation
  std::vector<int> binary_positions;  // its index in the chain
};
enum class Residual { kNone, kBinary, kSum };
PrimitivePostOps primitive_post_ops(const Operation& op, const MemoryDesc& output,
                                    Residual residual);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_ONEDNN_PROVIDER_H_
