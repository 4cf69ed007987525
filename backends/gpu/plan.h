// A kernel of the gpu backends is a function that queues an operation on fixed shapes on a stream.
#ifndef BACKENDS_GPU_PLAN_H_
#define BACKENDS_GPU_PLAN_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/gpu/api.h"
#include "rt/kernel.h"
#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace backends::gpu {

using rt::sdk::Operation;

inline constexpr int kMostPostOps = 4;       // that a kernel fuses
inline constexpr uint64_t kAlignment = 256;  // bytes, of every buffer; 16-byte accesses need 16

// The device addresses of one launch, which the caller owns, and the stream to queue it on.
struct Launch {
  const void* const* inputs;
  void* const* outputs;
  void* workspace;
  void* saved;
  GPU(Stream_t) stream;

  // Addresses of input i and output i, as elements of type T.
  template <typename T>
  const T* input(uint32_t i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <typename T>
  T* output(uint32_t i) const {
    return static_cast<T*>(outputs[i]);
  }
};

// A kernel that a plan queues, as in rt_kernel_work. `bytes`: read from and written to device
// memory.
struct Work {
  std::string name;
  double bytes = 0, flops = 0;
};

// One operation on fixed shapes. Immutable after creation: `run` may be called concurrently with
// different buffers, allocates nothing and waits for nothing.
struct Kernel {
  std::function<void(const Launch&)> run;
  uint64_t workspace_bytes = 0;
  uint64_t saved_bytes = 0;  // of a forward: bytes that it writes for its backward
  uint64_t reads_saved = 0;  // of a backward: bytes that it expects its forward to have saved
  double tolerance = 0;      // if larger than what the rounding of the result's type allows
  std::string implementation = "own";
  // The kernels that `run` queues, in their order. Empty: one kernel, which reads and writes every
  // operand once.
  std::vector<Work> work;
};

// The properties of the opened device that kernels depend on.
struct Properties {
  int32_t multiprocessors = 1;
};

// Makes our own kernel of an operation. Shapes, types and attributes were checked by the reference
// before. Throws RT_ERROR_UNSUPPORTED for what the kernel cannot do.
using Factory = Kernel (*)(const Properties&, const Operation&);

// Properties of an operation, for Entry::properties.
inline constexpr uint32_t kFuses = 1;  // its kernel applies post-operations

// One operation of a family.
struct Entry {
  const char* name;
  Factory make;
  uint32_t properties = 0;
  bool has(uint32_t property) const { return (properties & property) != 0; }
};
// The operations of one source file; the entries live as long as the process.
struct Family {
  const Entry* begin;
  size_t count;
};
// The families, each from the source file of its name (elementwise.cu).
Family elementwise_family();
Family gate_family();
Family reduction_family();
Family loss_family();
Family normalisation_family();
Family product_family();
Family pooling_family();
Family attention_family();
Family movement_family();
Family optimizer_family();

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_PLAN_H_
