// What the recorded steps of a rank cost, operation by operation.
#ifndef RUNTIME_ANALYSIS_PROFILE_H_
#define RUNTIME_ANALYSIS_PROFILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/analysis/roofline.h"
#include "runtime/train/profiler.h"

namespace runtime::analysis {

// What one run of a node costs at least. Bytes are those that the plugin tells for its kernels,
// otherwise those of all operands, each read or written once; 0 for collectives.
struct NodeCost {
  double flops = 0, bytes = 0;
};
NodeCost cost_of(const exec::Program& program, size_t node);

// All runs of one operation in the recorded steps. Numbers are for one step.
struct OperationProfile {
  std::string name, layer, phase, implementation;
  double calls = 0, ns = 0, flops = 0, bytes = 0;
  // The least time by the limits of the device, divided by `ns`; empty without limits or costs.
  // Above 1 if an algorithm, like Winograd's, needs less than the FLOPs of the definition.
  std::optional<double> roofline_share;
};

// Bytes by name.
struct NamedBytes {
  std::string name;
  uint64_t bytes = 0;
};

// The memory of the program that ends a step, as it was planned.
struct MemoryProfile {
  uint64_t persistent = 0, peak = 0;      // `peak` includes `persistent`
  std::vector<NamedBytes> timeline;       // by operation, in their order
  std::vector<NamedBytes> alive_at_peak;  // the largest first
};
// The bytes of the arena that are alive at each node of a program.
std::vector<uint64_t> alive_bytes(const exec::Program& program);

// The communication of a step. Exposed: the rank, or its device, started collectives or waited for
// them. Hidden: collectives were under way while it did something else.
struct CommunicationProfile {
  double exposed_ns = 0, hidden_ns = 0;
  double bytes = 0;  // that the rank sent, without what an algorithm sends twice
};

// The mean step of a rank. Times are in nanoseconds.
struct RankProfile {
  int rank = 0;
  std::string device;
  int64_t first_step = 0, last_step = 0, steps = 0;  // the first two counted from 1
  double step_ns = 0;                    // from the beginning of a step to that of the next one
  std::map<std::string, double> phases;  // "forward", ..., see graph::name_of()
  CommunicationProfile communication;
  // These are what the host does in a step and behind it, see exec::SpanKind.
  double data_wait_ns = 0, prepare_ns = 0, upload_ns = 0, report_ns = 0, between_ns = 0,
         exchange_ns = 0;
  double cpu_utilisation = 0;  // cores that the process kept busy
  std::optional<double> device_utilisation;
  exec::ClockOffset clock;  // of the last cycle
  std::optional<Roofline> limits;
  std::vector<OperationProfile> operations;  // the longest first
  MemoryProfile memory;
};

// `recording` has at least one step.
RankProfile make_profile(const train::Recording& recording, train::StepPrograms& programs, int rank,
                         const std::optional<Roofline>& limits);
// One JSON object: an element of "ranks" of profile.json.
std::string to_json(const RankProfile& profile);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_PROFILE_H_
