// The batch-blocked kernels as a provider of the cpu device. Owns one layout, "n16hwc16n", of
// float32 images.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_PROVIDER_H_
#define BACKENDS_CPU_BATCH_BLOCKED_PROVIDER_H_

#include "backends/cpu/engine.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

// Offers conv2d (one group) with both gradients, max and average pooling with theirs, and `copy` to
// and from the canonical layout. Element-by-element operations over the layout are the business of
// other providers.
class BatchBlockedProvider : public Provider {
 public:
  explicit BatchBlockedProvider(const Engine& engine) : engine_(engine) {}

  Answer query(const Operation& op) override;
  std::unique_ptr<Plan> create(const Operation& op, uint32_t algorithm) override;
  std::optional<uint64_t> layout_bytes(const rt_tensor_desc& tensor) const override;
  std::optional<std::string> layout_name(const rt_tensor_desc& tensor) const override;
  bool layout_is_elementwise(const rt_tensor_desc& tensor) const override;
  std::optional<ChannelOrder> channel_order(const rt_tensor_desc& tensor) const override;

 private:
  const Engine& engine_;
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_BATCH_BLOCKED_PROVIDER_H_
