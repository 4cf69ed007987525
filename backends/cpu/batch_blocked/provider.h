// The provider of the batch-blocked kernels. It owns one layout, "n16hwc16n", of float32 images.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_PROVIDER_H_
#define BACKENDS_CPU_BATCH_BLOCKED_PROVIDER_H_

#include "backends/cpu/engine.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

// Offers conv2d (one group), max and average pooling, the gradients of these, and `copy` between
// its layout and the canonical one. Operations on single elements in this layout are served by
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
