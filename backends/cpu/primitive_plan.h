// A plan that runs oneDNN primitives one after another and then our own pass over output 0.
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

// The buffer of a launch in which a memory object lies.
struct Slot {
  enum class Kind : uint8_t { kInput, kOutput, kWorkspace };
  Kind kind = Kind::kInput;
  uint32_t index = 0;   // number of the input or output
  uint64_t offset = 0;  // bytes from the start of the workspace
};

// Primitives, memory objects and scratchpads are made while the plan is built; launch() only sets
// addresses. launch() holds a lock, because concurrent launches share the memory objects.
class PrimitivePlan : public Plan {
 public:
  PrimitivePlan(const Engine& engine, dnnl::engine onednn, std::string implementation);

  // Both return the number of a new memory object, for step() and reorder(): one that lies in an
  // operand of the launch, and one that lies in the workspace.
  size_t operand(const MemoryDesc& desc, Slot::Kind kind, uint32_t index);
  size_t temporary(const MemoryDesc& desc);

  // Appends a primitive. `arguments` are pairs of a DNNL_ARG_* and the number of a memory object.
  // `scratchpad` may be an empty description.
  void step(const dnnl::primitive& primitive, const MemoryDesc& scratchpad,
            const std::vector<std::pair<int, size_t>>& arguments);
  // Appends a reorder between two memory objects. If oneDNN has no direct reorder, it goes through
  // a temporary in a plain layout.
  void reorder(size_t from, size_t to);
  // Copies input `index` (`bytes` long) to output 0 before the first primitive, unless both are the
  // same memory.
  void preload_output(uint32_t index, uint64_t bytes);
  // Applies `chain` to the `count` elements of output 0 after the last primitive.
  void finish_with(PostChain chain, int64_t count);
  // Appends a float32 temporary in place of output 0, which is in bfloat16. After the last
  // primitive the chain is applied to it, and the result is rounded into the output. Returns its
  // number.
  size_t wide_output(const MemoryDesc& desc);
  // Says that the type of output 0 is bfloat16.
  void set_narrow() { narrow_ = true; }
  // Reports that `output` may share the memory of `input`.
  void allow_in_place(uint32_t output, uint32_t input) { info_.in_place[output] |= 1u << input; }

  void launch(const rt_launch& launch) override;

 private:
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  void set_addresses(const rt_launch& launch);
  void apply_chain(const rt_launch& launch, int64_t begin, int64_t end) const;

  const Engine& engine_;
  dnnl::engine onednn_;
  dnnl::stream stream_;
  std::mutex mutex_;
  // `address` is the current address of the memory object. It is set only when it changes, because
  // oneDNN 2.x writes the padding of the tensor each time it is set, and the producer of the tensor
  // has already done that.
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
  bool narrow_ = false;       // output 0 is in bfloat16
  int64_t wide_offset_ = -1;  // of the temporary of wide_output() in the workspace
};

// Estimated nanoseconds of a reorder of `bytes`.
double reorder_ns(const Engine& engine, uint64_t bytes);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_PRIMITIVE_PLAN_H_
