// Convolutions, matrix products and reorders by oneDNN, in canonical layouts and in oneDNN's own.
#ifndef BACKENDS_CPU_ONEDNN_PROVIDER_H_
#define BACKENDS_CPU_ONEDNN_PROVIDER_H_

#include <memory>

#include "backends/cpu/engine.h"
#include "backends/cpu/layouts.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

// The state that the query and create functions below share. It belongs to one opened device.
// Thread-safe.
struct OnednnContext {
  Engine& engine;
  dnnl::engine onednn;
  Layouts& layouts;
};

// See provider.h for what each function does.
class OnednnProvider : public Provider {
 public:
  OnednnProvider(Engine& engine, Layouts& layouts);
  bool takes_bfloat16() const override { return true; }
  Answer query(const Operation& op) override;
  std::unique_ptr<Plan> create(const Operation& op, uint32_t algorithm) override;
  std::optional<uint64_t> layout_bytes(const rt_tensor_desc& tensor) const override;
  std::optional<std::string> layout_name(const rt_tensor_desc& tensor) const override;
  bool layout_is_elementwise(const rt_tensor_desc& tensor) const override;
  std::optional<ChannelOrder> channel_order(const rt_tensor_desc& tensor) const override;

 private:
  OnednnContext context_;
};

// The attributes that all our primitives have: the caller provides the scratchpad (user mode).
dnnl::primitive_attr default_attributes();

// Candidates and plans of conv2d and its gradients (convolution.cpp). Both throw rt::sdk::Error;
// create_convolution returns nullptr if `algorithm` is 0 (the default, direct convolution) and
// oneDNN has no implementation of it for these layouts.
Answer query_convolution(const OnednnContext& context, const Operation& op);
std::unique_ptr<Plan> create_convolution(const OnednnContext& context, const Operation& op,
                                         uint32_t algorithm);
// Candidates and plans of matmul (matmul.cpp), with the same errors.
Answer query_matmul(const OnednnContext& context, const Operation& op);
std::unique_ptr<Plan> create_matmul(const OnednnContext& context, const Operation& op,
                                    uint32_t algorithm);

// The post-operations that a primitive does itself: a bias that comes first, then residual adds.
// Activations are always computed by our class PostChain, because some implementations of oneDNN's
// relu and sigmoid turn NaN into a number, and its gelus have large relative errors where the
// result is small.
struct PrimitivePostOps {
  int bias_input = -1;  // index of the operation's input that holds the bias; -1: none
  // Index of the residual input whose values must be in the memory of output 0 before the primitive
  // runs, which adds to them (oneDNN's post-op "sum"); -1: none.
  int sum_input = -1;
  uint32_t taken = 0;  // number of post-operations in `attributes`; PostChain does the others
  dnnl::primitive_attr attributes;
  std::vector<int> binary_inputs;     // input index of the operand of each binary post-operation
  std::vector<int> binary_positions;  // position of each binary post-operation in the chain of
                                      // oneDNN
};
// How a primitive adds a residual: not at all, as oneDNN's post-op "binary", or as its post-op
// "sum".
enum class Residual { kNone, kBinary, kSum };
// Puts as many post-operations of `op` as possible into the attributes of a primitive whose output
// has the layout `output`, adding residuals in the way `residual`.
PrimitivePostOps primitive_post_ops(const Operation& op, const MemoryDesc& output,
                                    Residual residual);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_ONEDNN_PROVIDER_H_
