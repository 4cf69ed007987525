// Plans smaller batches until one fits, and words the advice.
#include "runtime/analysis/memory_advice.h"

#include <algorithm>
#include <optional>

#include "plugins/host/error.h"
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

  // What the step takes; nothing if one of its tensors is larger than the device's largest buffer.
  std::optional<RankMemory> whole() const { return needed(config_); }
  uint64_t room() const { return room_; }

  // The largest number of at most `rows` rows that fits as the key that `set` sets, and the bytes
  // that it takes; 0: none.
  template <typename Set>
  int64_t largest_rows(int64_t rows, Set&& set, uint64_t& bytes) const {
    const auto fit = [&](int64_t tried) {
      config::Config smaller = config_;
      set(smaller.training, static_cast<int>(tried));
      const std::optional<RankMemory> memory = needed(smaller);
      const bool is_enough = memory && memory->total() <= room_;
      if (is_enough) bytes = memory->total();
      return is_enough;
    };
    int64_t fits = rows, too_large = rows;
    while (fits > 0 && !fit(fits)) {
      too_large = fits;
      fits /= 2;
    }
    for (int i = 0; i < kBisections && too_large - fits > 1 && fits > 0; ++i) {
      const int64_t middle = (fits + too_large) / 2;
      (fit(middle) ? fits : too_large) = middle;
    }
    return fits;
  }

 private:
  std::optional<RankMemory> needed(const config::Config& config) const {
    try {
      return largest(planner_.plan(config, world_size_));
    } catch (const plugins::host::Error& error) {
      if (error.code() != RT_ERROR_OUT_OF_MEMORY) throw;
      return std::nullopt;
    }
  }

  Planner planner_;
  const config::Config& config_;
  int world_size_;
  uint64_t room_;
};

std::string uses(const RankMemory& memory, int64_t rows, uint64_t room, const Planner& planner) {
  return "A step of " + std::to_string(rows) + " samples takes " + mib(memory.total()) +
         " of a rank: parameters " + mib(memory.parameters) + ", gradients " +
         mib(memory.gradients) + ", optimizer and other state " + mib(memory.state) +
         ", packed weights " + mib(memory.packed) + ", activations and workspaces " +
         mib(memory.arena) + "; for it " + mib(room) + " of " + planner.device->id() +
         " are free. ";
}

}  // namespace

std::string memory_advice(const Planner& planner, const config::Config& config, int world_size) {
  const Search search(planner, config, world_size);
  const std::optional<RankMemory> memory = search.whole();
  const int data = step::mesh_of(config.parallelism, world_size).data;
  const int64_t share = (config.training.global_batch_size + data - 1) / data;
  const int64_t rows = config.training.micro_batch_size > 0
                           ? std::min<int64_t>(config.training.micro_batch_size, share)
                           : share;
  const std::string text = memory ? uses(*memory, rows, search.room(), planner) : "";
  uint64_t bytes = 0;
  const auto micro_batch = [](config::Training& training, int tried) {
    training.micro_batch_size = tried;
  };
  const int64_t fits = planner.trains ? search.largest_rows(rows - 1, micro_batch, bytes) : 0;
  if (fits > 0) {
    return text + "training.micro_batch_size = " + std::to_string(fits) + " fits (" + mib(bytes) +
           ") and keeps the batch, in more passes; training.recompute = \"blocks\" saves more";
  }
  // An evaluation computes a whole global batch at once.
  const auto global_batch = [&](config::Training& training, int tried) {
    training.global_batch_size = tried * data;
    training.batch_size_per_rank = 0;
    training.micro_batch_size = 0;
  };
  const int64_t batch =
      planner.evaluates ? data * search.largest_rows(share - 1, global_batch, bytes) : 0;
  if (batch > 0) {
    return text + "training.global_batch_size = " + std::to_string(batch) + " fits (" + mib(bytes) +
           "), and no smaller training.micro_batch_size alone, because an evaluation computes as "
           "many samples at once";
  }
  return text +
         "Not even a micro-batch of one sample fits: split the model (parallelism.tensor, "
         "pipeline or zero_stage), recompute (training.recompute = \"blocks\"), or use a "
         "device with more memory";
}

}  // namespace runtime::analysis
