// The provider of our own kernels; see provider.h for what each function does.
#ifndef BACKENDS_CPU_NATIVE_PROVIDER_H_
#define BACKENDS_CPU_NATIVE_PROVIDER_H_

#include "backends/cpu/native.h"

namespace backends::cpu {

// Serves the operations of all tables in native.h.
class NativeProvider : public Provider {
 public:
  NativeProvider(Engine& engine, Layouts& layouts) : context_{engine, layouts} {}
  Answer query(const Operation& op) override;
  std::unique_ptr<Plan> create(const Operation& op, uint32_t algorithm) override;
  // NativeProvider owns no layouts; it works on those of the other providers.
  std::optional<uint64_t> layout_bytes(const rt_tensor_desc&) const override { return {}; }
  std::optional<std::string> layout_name(const rt_tensor_desc&) const override { return {}; }
  bool layout_is_elementwise(const rt_tensor_desc&) const override { return false; }
  std::optional<ChannelOrder> channel_order(const rt_tensor_desc&) const override { return {}; }

 private:
  NativeContext context_;
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_NATIVE_PROVIDER_H_
