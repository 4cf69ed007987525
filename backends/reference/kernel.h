// A kernel of the reference is a function of host addresses that does an operation on fixed shapes.
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
#include "rt/sdk/refusal.h"

namespace backends::reference {

// The addresses of one launch, which the caller owns. The calling thread can read and write them.
struct Buffers {
  const void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  void* workspace = nullptr;
  void* saved = nullptr;

  // Addresses of input i, output i and the workspace, as elements of type T.
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

// One operation on fixed shapes. Immutable after creation: `run` may be called concurrently with
// different buffers and allocates nothing.
struct Kernel {
  std::function<void(const Buffers&)> run = nullptr;
  uint64_t workspace_bytes = 0;
  uint64_t saved_bytes = 0;  // of a forward: bytes that it writes for its backward
  uint64_t reads_saved = 0;  // of a backward: bytes that it expects its forward to have saved
  // Bit i of in_place[j]: output j may share the memory of input i.
  std::array<uint32_t, RT_MAX_OUTPUTS> in_place{};
};

// Thrown for an operation that is valid but that the reference does not do.
using rt::sdk::Refusal;

// Checks every shape, type and attribute and makes the kernel, post-operations included. Throws
// rt::sdk::Error (RT_ERROR_INVALID_ARGUMENT) if the description violates plugins/operations.md, and
// Refusal if the reference does not do the operation.
Kernel make_kernel(const rt::sdk::Operation& operation);

// The names of all operations, sorted.
std::vector<std::string> operation_names();

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_KERNEL_H_
