// Which ranks keep the others waiting in every step, because they are slower.
#ifndef RUNTIME_TRAIN_RUN_SLOW_RANKS_H_
#define RUNTIME_TRAIN_RUN_SLOW_RANKS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/parallel/mesh.h"
#include "runtime/train/cost_meter.h"

namespace runtime::train {

struct RankSetup;

// A rank that is slower than the others along its data axis, which have the same work.
struct SlowRank {
  int rank = 0;
  double seconds = 0;  // of a step, without waiting for other ranks
  double others = 0;   // the median of those of the others
};

// Those that need a fifth more time than the median of the others, and a millisecond at least.
// `seconds`: by rank of the job.
std::vector<SlowRank> slow_ranks(const std::vector<double>& seconds, const parallel::Mesh& mesh);

// Compares the ranks of a run whose shares of a batch are about equal, over windows of 20 steps and
// 2 seconds at least. One thread; what it is given must outlive it.
class SlowRankWatch {
 public:
  SlowRankWatch(const RankSetup& setup, CostMeter& cost) : setup_(setup), cost_(cost) {}

  // Every rank calls it after the same steps. Returns a warning about ranks that have become slow,
  // the same on every rank, or "".
  std::string look();

 private:
  bool same_work() const;
  std::string warning_about(const std::vector<SlowRank>& slow, int64_t steps) const;

  const RankSetup& setup_;
  CostMeter& cost_;
  StepTimes begin_;      // of the window
  std::set<int> named_;  // in a warning before: each rank is named once in a run
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_SLOW_RANKS_H_
