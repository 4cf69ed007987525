// A kernel of the reference: an operation on fixed shapes as a function of host addresses.
#ifndef BACKENDS_REFERENCE_KERNEL_H_
#define BACKENDS_REFERENCE_KERNEL_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "rt/kernel.h"
#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace backends::reference {

// Addresses of one launch, readable and writable by the calling thread.
struct Buffers {
  const void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  void* workspace = nullptr;
  void* saved = nullptr;

  template <typename T>
  const T* input(uint32_t i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <typename T>
  T* output(uint32_t i) const {
    return static_cast<T*>(outputs[i]);
  }
  template <typename T>
  T* scratch() const {
    return static_cast<T*>(workspace);
  }
};

// Immutable after creation; `run` may be called concurrently with different buffers and allocates
// nothing.
struct Kernel {
  std::function<void(const Buffers&)> run;
  uint64_t workspace_bytes = 0;
  uint64_t saved_bytes = 0;  // forward: what it writes for its backward
  uint64_t reads_saved = 0;  // backward: what it expects its forward to have saved
  // Bit i of in_place[j]: output j may share the memory of input i.
  std::array<uint32_t, RT_MAX_OUTPUTS> in_place{};
};

// The operation is valid, but the reference does not do it. `operand` as in
// rt_support.reason_operand.
class Refusal : public rt::sdk::Error {
 public:
  Refusal(int32_t operand, std::string message)
      : Error(RT_ERROR_UNSUPPORTED, std::move(message)), operand_(operand) {}
  int32_t operand() const { return operand_; }

 private:
  int32_t operand_;
};

// Checks every shape, type and attribute and makes the kernel, post-operations included. Throws
// rt::sdk::Error (RT_ERROR_INVALID_ARGUMENT) where plugins/operations.md is not obeyed, Refusal
// where the reference does not do it.
Kernel make_kernel(const rt::sdk::Operation& operation);

// The operations there are, sorted.
std::vector<std::string> operation_names();

// Whether operations.md lets post-operations follow `name`.
bool takes_post_operations(const std::string& name);

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_KERNEL_H_
