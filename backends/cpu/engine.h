// The state of one opened cpu device: its number of threads, its speed and its providers. Opened
// devices share nothing.
#ifndef BACKENDS_CPU_ENGINE_H_
#define BACKENDS_CPU_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/bfloat16/processor.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/table.h"
#include "backends/cpu/provider.h"
#include "backends/cpu/team/team.h"

namespace backends::cpu {

class Layouts;

// The options of device_open, after they were checked.
struct EngineOptions {
  int threads = 1;       // always at least 1
  bool winograd = true;  // offer Winograd convolutions, which are faster and less exact
  bool bf16x3 =
      true;  // offer float32 products as sums of bfloat16 ones, where a matrix unit does them
  bool pin = false;        // keep each thread of the team but the calling one on one processor
  std::optional<Isa> isa;  // widest instruction set for our kernels and oneDNN; empty: all that the
                           // processor has
  double gigahertz = 3.5;  // clock frequency, for cost estimates only
};

// The answers of all providers merged into one. algorithms[i] is the device-wide number of
// candidates[i], as in rt_candidate.algorithm.
struct EngineAnswer : Answer {
  std::vector<uint64_t> algorithms;
};

// Thread-safe: nothing changes after the last add() but the counter, which is atomic, and the state
// that providers protect with locks of their own.
class Engine {
 public:
  // Throws rt::sdk::Error if oneDNN was already used in this process with another limit than
  // options.isa.
  explicit Engine(const EngineOptions& options);
  ~Engine();
  // Takes a provider, which is asked after those that were added before. Call it only before any
  // query; see add_providers() in providers.h.
  void add(std::unique_ptr<Provider> provider);
  // The table of oneDNN's layouts, which the providers of this device share.
  Layouts& layouts() { return *layouts_; }

  // Into how many parts operations are cut. The bits of results depend on it, so it is the number
  // of the options, also where fewer processors compute the parts.
  int threads() const { return options_.threads; }
  // May Winograd convolutions be offered?
  bool winograd() const { return options_.winograd; }
  // May float32 products be made of bfloat16 ones?
  bool bf16x3() const { return options_.bf16x3; }
  // Why this device does not compute in bfloat16; empty if it does.
  const std::string& bfloat16_obstacle() const { return bfloat16_obstacle_; }
  // The instruction set of our own kernels.
  Isa isa() const { return isa_; }
  // The kernels compiled for isa(); the table lives as long as the process.
  const kernels::Table& kernels() const { return kernels::kernels_for(isa_); }

  // For estimates: peak float32 operations per nanosecond (a multiply-add is two) over all threads,
  // and bytes per nanosecond from memory.
  double peak_flops_per_ns() const { return peak_; }
  double bytes_per_ns() const { return bandwidth_; }
  // How many times faster products of numbers in bfloat16 are than those in float32.
  double bfloat16_speed() const { return has_bfloat16_matrices() ? 8.0 : 1.8; }

  // While the result lives, oneDNN and our loops compute with the threads of this device in the
  // calling thread. Throws as Team::Use does.
  [[nodiscard]] Team::Use use_team() const;

  // Asks every provider for candidates. An operation that no provider serves is an answer with
  // level RT_SUPPORT_REFUSED and a reason. Throws rt::sdk::Error for an invalid description.
  EngineAnswer query(const Operation& op);
  // Makes the plan of one candidate. The algorithm of `op` is 0 (the first provider that serves the
  // operation chooses) or one of EngineAnswer::algorithms. Throws rt::sdk::Error.
  std::unique_ptr<Plan> create(const Operation& op);

  // Bytes of a tensor in its layout, canonical or foreign. Throws rt::sdk::Error for a layout id
  // that no query of this device has produced.
  uint64_t layout_bytes(const rt_tensor_desc& tensor) const;
  // A name for messages, such as "canonical" or "aBcd16b". Throws as layout_bytes does.
  std::string layout_name(const rt_tensor_desc& tensor) const;
  // May the buffer of this tensor be treated as one flat array? See
  // Provider::layout_is_elementwise.
  bool layout_is_elementwise(const rt_tensor_desc& tensor) const;
  // Where the channels of the tensor are; RT_LAYOUT_ANY counts as canonical. Empty for layouts
  // whose channels do not follow a ChannelOrder.
  std::optional<ChannelOrder> channel_order(const rt_tensor_desc& tensor) const;

  // Bytes allocated through rt.device and not yet released.
  std::atomic<uint64_t> allocated_bytes{0};

 private:
  // The answer for `op` with only its first `post_ops` post-operations.
  EngineAnswer query_part(const Operation& op, uint32_t post_ops);

  EngineOptions options_;
  Isa isa_;
  double peak_ = 1, bandwidth_ = 10;
  std::string bfloat16_obstacle_;
  std::unique_ptr<Layouts> layouts_;
  std::unique_ptr<Team> team_;
  std::vector<std::unique_ptr<Provider>> providers_;
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_ENGINE_H_
