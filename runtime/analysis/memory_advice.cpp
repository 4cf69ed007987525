#include "runtime/analysis/memory_advice.h"

#include <algorithm>

#include "runtime/step/ranks.h"
#include "runtime/system/available_memory.h"

namespace runtime::analysis {

namespace {

using system::mib;

// The fraction of the free memory that can be used: allocators round up, and the driver takes some.
constexpr double kUsable = 0.98;
// The number of bisections after the first size that fits; the answer is within an eighth of the
// largest.
constexpr int kBisections = 3;

RankMemory largest(const JobPlan& plan) {
  return std::max_element(plan.roles.begin(), plan.roles.end(),
                          [](const RolePlan& a, const RolePlan& b) {
                            return a.memory.total() < b.memory.total();
                          })
      ->memory;
}

class Search {
 public:
  Search(const Planner& planner, const config::Config& config, int world_size)
      : planner_(planner), config_(config), world_size_(world_size) {
    planner_.options.target.tune = exec::Tune::kOff;  // no program is run
    const uint64_t free = planner_.device->memory_info().free_bytes;
    room_ = static_cast<uint64_t>(kUsable * static_cast<double>(free)) /
            (planner_.share_device ? world_size : 1);
  }

  RankMemory whole() const { return largest(planner_.plan(config_, world_size_)); }
  uint64_t room() const { return room_; }

  // The largest micro-batch of at most `rows` rows that fits, and the bytes that it takes; 0: none.
  int64_t micro_batch(int64_t rows, uint64_t& bytes) const {
    int64_t fits = rows, too_large = rows;
    while (fits > 0 && !try_micro_batch(fits, bytes)) {
      too_large = fits;
      fits /= 2;
    }
    for (int i = 0; i < kBisections && too_large - fits > 1 && fits > 0; ++i) {
      const int64_t middle = (fits + too_large) / 2;
      (try_micro_batch(middle, bytes) ? fits : too_large) = middle;
    }
    return fits;
  }

 private:
  bool try_micro_batch(int64_t rows, uint64_t& bytes) const {
    config::Config smaller = config_;
    smaller.training.micro_batch_size = static_cast<int>(rows);
    const uint64_t needed = largest(planner_.plan(smaller, world_size_)).total();
    if (needed <= room_) bytes = needed;
    return needed <= room_;
  }

  Planner planner_;
  const config::Config& config_;
  int world_size_;
  uint64_t room_;
};

}  // namespace

std::string memory_advice(const Planner& planner, const config::Config& config, int world_size) {
  const Search search(planner, config, world_size);
  const RankMemory memory = search.whole();
  const int data = step::mesh_of(config.parallelism, world_size).data;
  const int64_t share = (config.training.global_batch_size + data - 1) / data;
  const int64_t rows = config.training.micro_batch_size > 0
                           ? std::min<int64_t>(config.training.micro_batch_size, share)
                           : share;
  std::string text = "A step of " + std::to_string(rows) + " samples takes " + mib(memory.total()) +
                     " of a rank: parameters " + mib(memory.parameters) + ", gradients " +
                     mib(memory.gradients) + ", optimizer and other state " + mib(memory.state) +
                     ", packed weights " + mib(memory.packed) + ", activations and workspaces " +
                     mib(memory.arena) + "; for it " + mib(search.room()) + " of " +
                     planner.device->id() + " are free. ";
  uint64_t bytes = 0;
  const int64_t fits = search.micro_batch(rows - 1, bytes);
  if (fits == 0)
    return text +
           "Not even a micro-batch of one sample fits: split the model (parallelism.tensor, "
           "pipeline or zero_stage), recompute (training.recompute = \"blocks\"), or use a "
           "device with more memory";
  return text + "training.micro_batch_size = " + std::to_string(fits) + " fits (" + mib(bytes) +
         ") and keeps the batch, in more passes; training.recompute = \"blocks\" saves more";
}

}  // namespace runtime::analysis
