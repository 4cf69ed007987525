// The passes' view of a device: support, candidates and measured times, from the kernel table of a
// plugin, and the decisions that were made with them.
#ifndef RUNTIME_EXEC_DEVICE_TARGET_H_
#define RUNTIME_EXEC_DEVICE_TARGET_H_

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "plugins/host/device.h"
#include "runtime/exec/decision_cache.h"
#include "runtime/graph/target.h"

namespace runtime::exec {

// The description of a node for the plugin, in the layouts of its values. `flags` are RT_OP_* flags
// of rt_op_desc. `forward` is the plan whose saved data a backward node reads.
plugins::host::Operation to_operation(const graph::Graph& graph, const graph::Node& node,
                                      uint32_t flags, const rt_plan* forward = nullptr);

// How layouts and algorithms are chosen. Equivalent to: torch.backends.cudnn.benchmark.
enum class Tune {
  kOff,    // by the backend's estimates
  kQuick,  // measured: launches of about a second in all, the loading of code not counted
  kFull,   // measured, without a time limit
};

// Input of DeviceTarget.
struct TargetOptions {
  // The flags of every operation of the run, for rt_op_desc.
  uint32_t flags() const { return deterministic ? RT_OP_DETERMINISTIC : 0; }

  Tune tune = Tune::kQuick;
  bool deterministic = false;  // deterministic implementations only; nothing is measured
  // Where measured decisions are kept, one for each backend build, device, threads and graph.
  // Empty: they are not kept.
  std::filesystem::path cache_folder = {};
  // The decisions of this rank, which its programs share; never null.
  std::shared_ptr<DecisionBook> decisions = std::make_shared<DecisionBook>();
  // The device that runs what the device of the programs refuses (exec/fallback.h); null: none.
  std::shared_ptr<plugins::host::Device> fallback = nullptr;
  // For how long threads of this process have waited for a core so far; none: system::CoreWaits.
  std::function<std::chrono::nanoseconds()> waited = nullptr;
};

class Tuner;

// A target belongs to one thread. It caches its answers, because layers repeat. The total time of
// measure() is limited as `tune` says. Once it is spent, nodes keep their estimates. Decisions that
// were measured on a busy machine (tuner.h) are used, and go into the book of decisions, but not on
// disk.
class DeviceTarget : public graph::Target {
 public:
  DeviceTarget(std::shared_ptr<plugins::host::Device> device, TargetOptions options);
  ~DeviceTarget() override;
  DeviceTarget(const DeviceTarget&) = delete;
  DeviceTarget& operator=(const DeviceTarget&) = delete;

  std::string name() const override { return device_->id(); }
  std::string fallback_name() const override {
    return options_.fallback == nullptr ? "" : options_.fallback->id();
  }
  graph::Support support(const graph::Graph& graph, const graph::Node& node) override;
  std::vector<graph::Candidate> candidates(const graph::Graph& graph, const graph::Node& node,
                                           const std::vector<uint64_t>& input_layouts,
                                           const std::vector<uint64_t>& output_layouts) override;
  bool measures() const override;
  void measure(const graph::Graph& graph, const graph::Node& node,
               std::vector<graph::Candidate>& candidates) override;
  double copy_ns(const graph::Value& value, uint64_t from, uint64_t to) override;
  uint64_t layout_bytes(const graph::Value& value, uint64_t layout) override;
  std::optional<graph::LayoutDecision> remembered(const graph::Graph& graph) override;
  void remember(const graph::Graph& graph, const graph::LayoutDecision& decision) override;
  // What the user should know of the measuring, a line each, for the log.
  std::vector<std::string> notes() const;

 private:
  plugins::host::Operation operation(const graph::Graph& graph, const graph::Node& node) const;
  plugins::host::Device& device_of(const graph::Node& node) const;
  std::vector<graph::Candidate> fallback_candidates(const graph::Graph& graph,
                                                    const graph::Node& node,
                                                    const std::vector<uint64_t>& input_layouts,
                                                    const std::vector<uint64_t>& output_layouts);
  std::shared_ptr<plugins::host::Device> device_;
  const TargetOptions options_;
  std::unique_ptr<Tuner> tuner_;
  std::unordered_map<std::string, graph::Support> supports_;
  std::unordered_map<std::string, std::vector<graph::Candidate>> candidates_;
  std::unordered_map<std::string, double> copies_;
};

// $XDG_CACHE_HOME/runtime, else .cache/runtime in $HOME, or in the home folder of the list of
// users; empty if none of them is known.
std::filesystem::path default_cache_folder();

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_DEVICE_TARGET_H_
