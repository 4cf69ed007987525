// A provider is one source of implementations inside the cpu device: oneDNN, our own kernels, or a
// family of kernels with its own layouts. The device asks all providers and merges their answers.
#ifndef BACKENDS_CPU_PROVIDER_H_
#define BACKENDS_CPU_PROVIDER_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rt/kernel.h"
#include "rt/sdk/operation.h"

namespace backends::cpu {

using rt::sdk::Operation;

class Engine;

// Whether the tensor has the canonical layout, or none yet (in a query).
inline bool is_canonical(const rt_tensor_desc& tensor) {
  return tensor.layout == RT_LAYOUT_CANONICAL || tensor.layout == RT_LAYOUT_ANY;
}
// The number of the first operand with another layout than that (outputs from 100); -1: none.
inline int32_t foreign_operand(const Operation& op) {
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (!is_canonical(op.input(i))) return static_cast<int32_t>(i);
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    if (!is_canonical(op.output(i))) return static_cast<int32_t>(100 + i);
  }
  return -1;
}

// Whether any operand is in bfloat16.
inline bool has_bfloat16_operand(const Operation& op) {
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (op.input(i).dtype == RT_BFLOAT16) return true;
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    if (op.output(i).dtype == RT_BFLOAT16) return true;
  }
  return false;
}

// What rt_kernel_api.info reports; see rt_plan_info.
struct PlanInfo {
  uint64_t workspace_bytes = 0;
  uint64_t saved_bytes = 0;
  std::array<uint32_t, RT_MAX_OUTPUTS> in_place{};  // bit i of [j]: output j may share the memory
                                                    // of input i
  std::string implementation;
};

// An operation of fixed shapes and layouts, ready to run. The constructor makes everything that a
// launch needs. launch() allocates nothing and may run in several threads at once with different
// buffers, so a plan with shared state takes a lock. launch() throws rt::sdk::Error. The caller has
// checked the number of buffers against the operation, and computes with the engine's team;
// buffers, workspace and saved are aligned to
// kAlignment.
class Plan {
 public:
  virtual ~Plan() = default;
  virtual void launch(const rt_launch& launch) = 0;
  const PlanInfo& info() const { return info_; }

 protected:
  PlanInfo info_;
};

// Alignment of every buffer of this device, in bytes.
inline constexpr uint64_t kAlignment = 64;

// Where the channels of a tensor are in memory: element e belongs to channel e / step % blocks *
// block + e % block. Channels from `channels` on are padding and hold zero.
struct ChannelOrder {
  int64_t channels = 1, block = 1;
  int64_t step = std::numeric_limits<int64_t>::max();  // elements of one block of channels over all
                                                       // pixels of a sample
  int64_t blocks = 1;

  // Channels are the last dimension, without padding: the canonical layout.
  static ChannelOrder innermost(int64_t channels) {
    return {.channels = channels, .block = std::max<int64_t>(channels, 1)};
  }
  bool is_padded() const { return channels < block * blocks; }
};

// One way of doing an operation; see rt_candidate. The engine adds the sizes of the operands, which
// it asks of Provider::layout_bytes.
struct Candidate {
  uint32_t algorithm = 0;   // the provider's own number, not 0; the same in every process
  double estimated_ns = 0;  // one launch with the engine's threads, without reorders of operands
  std::array<uint64_t, RT_MAX_INPUTS> input_layouts{};    // canonical (0) or foreign
  std::array<uint64_t, RT_MAX_OUTPUTS> output_layouts{};  // canonical (0) or foreign
  std::string implementation;
};

// The answer of one provider to a query.
struct Answer {
  int32_t level = RT_SUPPORT_REFUSED;
  uint32_t post_ops_fused = 0;  // the longest prefix that every candidate of this answer fuses
  double tolerance = 1e-5;      // relative to the reference, in the norm of each output
  // Input (or 100 + output) that is the reason of a refusal; -1: none.
  int32_t reason_operand = -1;
  std::string reason;  // why it is refused; empty: this provider does not serve the operation at
                       // all
  std::vector<Candidate> candidates;
};

// Belongs to one opened device. Every function may be called from any thread at any time.
//
// The engine asks its providers in a fixed order. The first one that does not refuse decides
// `post_ops_fused`; candidates of a later provider that fuses fewer are left out, so a later
// provider should fuse as many post-operations as it can. Operands may be RT_LAYOUT_ANY in query
// only; a candidate must keep every concrete layout of the description.
class Provider {
 public:
  virtual ~Provider() = default;

  // Whether this provider is asked for operations with an operand in bfloat16.
  virtual bool takes_bfloat16() const { return false; }

  // Lists the candidates for `op`, or refuses it with a reason.
  virtual Answer query(const Operation& op) = 0;

  // Makes the candidate whose number is `algorithm`; 0 lets the provider choose for the layouts of
  // the description. Returns nullptr, for 0 only, if this provider does not serve the operation.
  // Throws rt::sdk::Error.
  virtual std::unique_ptr<Plan> create(const Operation& op, uint32_t algorithm) = 0;

  // Layout ids are hashes of everything about the layout, so they are the same in every process;
  // RT_LAYOUT_CANONICAL and RT_LAYOUT_ANY are never passed in. The result is empty if the layout is
  // not one of this provider or, for a provider that registers its layouts while it is queried, not
  // known yet. `copy` between the canonical layout and these is an operation like any other: query
  // and create. A provider without layouts of its own leaves these four functions as they are.
  virtual std::optional<uint64_t> layout_bytes(const rt_tensor_desc&) const { return {}; }
  virtual std::optional<std::string> layout_name(const rt_tensor_desc&) const { return {}; }
  // May an operation that processes elements in any order, and maps zero padding to zero, treat the
  // whole buffer as one array of float? Not true of transformed (Winograd) weights.
  virtual bool layout_is_elementwise(const rt_tensor_desc&) const { return false; }
  // Also empty if the layout is one of this provider but its channels follow no ChannelOrder.
  virtual std::optional<ChannelOrder> channel_order(const rt_tensor_desc&) const { return {}; }
};

// max_pool2d saves the position kh * KW + kw of the winner of each window in canonical [N,P,Q,C]
// order, as uint8 if KH * KW <= 256, else as int32. The format depends neither on the layouts nor
// on the provider, so forward and backward may come from different providers.
inline uint64_t max_pool_saved_element_bytes(int64_t kernel_h, int64_t kernel_w) {
  return kernel_h * kernel_w <= 256 ? 1 : 4;
}

// The plan behind rt_op_desc.forward; nullptr if there is none, as in a query.
const Plan* forward_plan(const Operation& op);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_PROVIDER_H_
