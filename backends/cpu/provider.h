// A provider is one source of implementations inside the cpu device: oneDNN, our own kernels, a
// family of kernels with its own layouts. The device asks all of them and merges their answers.
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

// What rt_kernel_api.info answers; see rt_plan_info.
struct PlanInfo {
  uint64_t workspace_bytes = 0;
  uint64_t saved_bytes = 0;
  std::array<uint32_t, RT_MAX_OUTPUTS> in_place{};  // bit i of [j]: output j may share input i
  std::string implementation;
};

// An operation of fixed shapes and layouts, ready to run. Everything it needs is made in the
// constructor; launch() allocates nothing, and may run in several threads at once with different
// buffers (take a lock where state is shared). It throws rt::sdk::Error. Buffers, workspace and
// saved are aligned to kAlignment; their number was checked against the operation.
class Plan {
 public:
  virtual ~Plan() = default;
  virtual void launch(const rt_launch& launch) = 0;
  const PlanInfo& info() const { return info_; }

 protected:
  PlanInfo info_;
};

inline constexpr uint64_t kAlignment = 64;

// Where the channels of a tensor are in memory: element e belongs to channel
// e / step % blocks * block + e % block; from `channels` on it is padding, which holds zero.
struct ChannelOrder {
  int64_t channels = 1, block = 1;
  int64_t step = std::numeric_limits<int64_t>::max();  // elements of a block of channels in a row
  int64_t blocks = 1;

  static ChannelOrder innermost(int64_t channels) {
    return {.channels = channels, .block = std::max<int64_t>(channels, 1)};
  }
  bool is_padded() const { return channels < block * blocks; }
};

// One way of doing an operation, see rt_candidate. Sizes are filled in by the engine, from
// Provider::layout_bytes.
struct Candidate {
  uint32_t algorithm = 0;   // the provider's own number, not 0; the same in every process
  double estimated_ns = 0;  // one launch with the engine's threads, without reorders of operands
  std::array<uint64_t, RT_MAX_INPUTS> input_layouts{};    // canonical (0) or foreign
  std::array<uint64_t, RT_MAX_OUTPUTS> output_layouts{};  // likewise
  std::string implementation;
};

// Answer of one provider to a query.
struct Answer {
  int32_t level = RT_SUPPORT_REFUSED;
  uint32_t post_ops_fused = 0;  // the longest prefix that every candidate listed here fuses
  double tolerance = 1e-5;      // relative to the reference, in the norm of each output
  int32_t reason_operand = -1;
  std::string reason;  // if refused; empty: the operation is none of this provider's business
  std::vector<Candidate> candidates;
};

// Belongs to one opened device. All functions may be called from any thread at any time.
//
// The engine asks providers in order. The first that does not refuse decides `post_ops_fused`;
// candidates of a later one that fuses fewer are left out, so a later provider should answer for as
// many post-operations as it can. Operands may be RT_LAYOUT_ANY in query only; a candidate must
// respect every concrete layout of the description.
class Provider {
 public:
  virtual ~Provider() = default;

  virtual Answer query(const Operation& op) = 0;

  // Makes candidate `algorithm` of query; 0: its own choice for the layouts of the description.
  // nullptr: not its business (only for 0). Throws rt::sdk::Error.
  virtual std::unique_ptr<Plan> create(const Operation& op, uint32_t algorithm) = 0;

  // Layouts: ids are hashes that name everything about the layout, the same in every process;
  // RT_LAYOUT_CANONICAL and RT_LAYOUT_ANY are never passed in. Empty: not a layout of this
  // provider (or, for a provider that registers its layouts while queried, not seen yet).
  // `copy` between canonical and these layouts is an operation like any other: query and create.
  virtual std::optional<uint64_t> layout_bytes(const rt_tensor_desc& tensor) const = 0;
  virtual std::optional<std::string> layout_name(const rt_tensor_desc& tensor) const = 0;
  // May an operation that works on elements in any order, and maps zero padding to zero, treat the
  // whole buffer as one array of float? Not true for transformed (Winograd) weights.
  virtual bool layout_is_elementwise(const rt_tensor_desc& tensor) const = 0;
  // Empty also where a layout of this provider has no such order.
  virtual std::optional<ChannelOrder> channel_order(const rt_tensor_desc& tensor) const = 0;
};

// max_pool2d saves, whatever the layouts and whichever provider runs it, the position kh * KW + kw
// of the winner of each window, in canonical [N,P,Q,C] order, as uint8 if KH * KW <= 256, else as
// int32. So forward and backward may come from different providers.
inline uint64_t max_pool_saved_element_bytes(int64_t kernel_h, int64_t kernel_w) {
  return kernel_h * kernel_w <= 256 ? 1 : 4;
}

// The plan behind rt_op_desc.forward; nullptr while there is none (query).
const Plan* forward_plan(const Operation& op);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_PROVIDER_H_
