// A kernel of the gpu backends: an operation on fixed shapes as a function that queues work on a
// stream.
#ifndef BACKENDS_GPU_PLAN_H_
#define BACKENDS_GPU_PLAN_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "backends/gpu/api.h"
#include "rt/kernel.h"
#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace backends::gpu {

using rt::sdk::Operation;

inline constexpr int kMostPostOps = 4;       // that a kernel fuses
inline constexpr uint64_t kAlignment = 256;  // of every buffer; 16-byte accesses need 16

// Device addresses of one launch, and where to queue it.
struct Launch {
  const void* const* inputs;
  void* const* outputs;
  void* workspace;
  void* saved;
  GPU(Stream_t) stream;

  template <typename T>
  const T* input(uint32_t i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <typename T>
  T* output(uint32_t i) const {
    return static_cast<T*>(outputs[i]);
  }
};

// Immutable after creation; `run` may be called concurrently with different buffers, allocates
// nothing and waits for nothing.
struct Kernel {
  std::function<void(const Launch&)> run;
  uint64_t workspace_bytes = 0;
  uint64_t saved_bytes = 0;  // forward: what it writes for its backward
  uint64_t reads_saved = 0;  // backward: what it expects its forward to have saved
  double tolerance = 0;      // if the rounding of its type is not what limits it
  std::string implementation = "own";
};

// What kernels need to know of the opened device.
struct Properties {
  int32_t multiprocessors = 1;
};

// Shapes, types and attributes were checked against the reference before a factory is called.
using Factory = Kernel (*)(const Properties&, const Operation&);

struct Entry {
  const char* name;
  Factory make;
  bool fuses = false;  // post-operations
};
struct Family {
  const Entry* begin;
  size_t count;
};
Family elementwise_family();
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
