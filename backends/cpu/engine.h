// The state of one opened cpu device: how many threads, how fast, which providers. Nothing here is
// shared between opened devices.
#ifndef BACKENDS_CPU_ENGINE_H_
#define BACKENDS_CPU_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/table.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

class Layouts;

struct EngineOptions {
  int threads = 1;         // resolved: at least 1
  bool winograd = true;    // offer Winograd convolutions (less exact, faster)
  std::optional<Isa> isa;  // limit for our kernels and oneDNN; empty: what the processor has
  double gigahertz = 3.5;  // for cost estimates only
};

// The answers of all providers as one, and the device-wide number of each candidate.
struct EngineAnswer : Answer {
  std::vector<uint64_t> algorithms;
};

// Thread-safe: immutable but for the counter and for what providers lock themselves.
class Engine {
 public:
  // Throws rt::sdk::Error if oneDNN can no longer be limited to options.isa.
  explicit Engine(const EngineOptions& options);
  ~Engine();

  int threads() const { return options_.threads; }
  bool winograd() const { return options_.winograd; }
  // The instruction set of our own kernels.
  Isa isa() const { return isa_; }
  const kernels::Table& kernels() const { return kernels::kernels_for(isa_); }

  // For estimates: float32 multiply-adds at the machine's peak, in FLOP per ns over all threads,
  // and bytes per ns from memory.
  double peak_flops_per_ns() const { return peak_; }
  double bytes_per_ns() const { return bandwidth_; }

  // Makes the calling thread's OpenMP regions (oneDNN's and ours) use threads(). Cheap, but the
  // first time, when it makes them; throws where the system gives none.
  void bind_calling_thread() const;

  EngineAnswer query(const Operation& op);
  // `algorithm` as in rt_op_desc: 0, or one of EngineAnswer::algorithms.
  std::unique_ptr<Plan> create(const Operation& op);

  // Bytes of a tensor in its layout, canonical or foreign; throws for an unknown layout id.
  uint64_t layout_bytes(const rt_tensor_desc& tensor) const;
  std::string layout_name(const rt_tensor_desc& tensor) const;
  bool layout_is_elementwise(const rt_tensor_desc& tensor) const;
  // RT_LAYOUT_ANY counts as canonical. Empty for layouts whose channels lie in another way.
  std::optional<ChannelOrder> channel_order(const rt_tensor_desc& tensor) const;

  std::atomic<uint64_t> allocated_bytes{0};

 private:
  EngineOptions options_;
  Isa isa_;
  double peak_ = 1, bandwidth_ = 10;
  std::unique_ptr<Layouts> layouts_;
  std::vector<std::unique_ptr<Provider>> providers_;
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_ENGINE_H_
