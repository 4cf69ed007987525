// A plan made of oneDNN primitives in a row, followed by our own pass over output 0.
#ifndef BACKENDS_CPU_PRIMITIVE_PLAN_H_
#define BACKENDS_CPU_PRIMITIVE_PLAN_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/cpu/engine.h"
#include "backends/cpu/layouts.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/post_chain.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

// Where the bytes of a memory object are at launch.
struct Slot {
  enum class Kind : uint8_t { kInput, kOutput, kWorkspace };
  Kind kind = Kind::kInput;
  uint32_t index = 0;   // of the input or output
  uint64_t offset = 0;  // in the workspace
};

// Primitives, memory objects and scratchpads are made while building; launch() only sets
// addresses. It holds a lock, because the memory objects are shared by concurrent launches.
class PrimitivePlan : public Plan {
 public:
  PrimitivePlan(const Engine& engine, dnnl::engine onednn, std::string implementation);

  // Numbers of memory objects, for step().
  size_t operand(const MemoryDesc& desc, Slot::Kind kind, uint32_t index);
  size_t temporary(const MemoryDesc& desc);

  // Appends a primitive. `scratchpad` may be an empty description.
  void step(const dnnl::primitive& primitive, const MemoryDesc& scratchpad,
            const std::vector<std::pair<int, size_t>>& arguments);
  // Appends a reorder between two memory objects, by way of plain memory if oneDNN has none at
  // once.
  void reorder(size_t from, size_t to);
  // Before the first primitive: output 0 becomes a copy of input `index` unless they are the same
  // memory.
  void preload_output(uint32_t index, uint64_t bytes);
  // After the last primitive, on the `count` elements of output 0.
  void finish_with(PostChain chain, int64_t count);
  void allow_in_place(uint32_t output, uint32_t input) { info_.in_place[output] |= 1u << input; }

  void launch(const rt_launch& launch) override;

 private:
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  void set_addresses(const rt_launch& launch);

  const Engine& engine_;
  dnnl::engine onednn_;
  dnnl::stream stream_;
  std::mutex mutex_;
  // `address` is what the memory object has now. Setting it again would make oneDNN 2.x write the
  // padding of the tensor once more; whoever wrote the tensor has done that.
  struct Bound {
    dnnl::memory memory;
    Slot slot;
    void* address = nullptr;
  };
  std::vector<Bound> memories_;
  std::vector<Step> steps_;
  int64_t preload_ = -1;
  uint64_t preload_bytes_ = 0;
  PostChain chain_;
  int64_t chain_count_ = 0;
};

// Estimated time of a reorder of `bytes`.
double reorder_ns(const Engine& engine, uint64_t bytes);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_PRIMITIVE_PLAN_H_
