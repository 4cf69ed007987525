// Hands out the work items of asynchronous training under a bound on staleness.
#ifndef RUNTIME_PARALLEL_ITEM_COUNTER_H_
#define RUNTIME_PARALLEL_ITEM_COUNTER_H_

#include <cstdint>
#include <optional>
#include <set>

namespace runtime::parallel {

// A work item is one of the `items_of_step` almost equal slices of a step's global batch. Items are
// numbered over the whole run: item p of step s is s * items_of_step + p. They are taken in order,
// each once. An item of step s may be taken when all items of the steps up to s - 1 - max_staleness
// have been applied: the bound of stale-synchronous SGD (Ho et al., "More effective distributed ML
// via a stale synchronous parallel parameter server", 2013), counted in steps of the whole batch.
// One thread at a time.
class ItemCounter {
 public:
  // All items below `first` have been applied before.
  ItemCounter(int items_of_step, int64_t max_staleness, int64_t first = 0)
      : items_of_step_(items_of_step), max_staleness_(max_staleness), next_(first) {}

  int64_t next() const { return next_; }
  // Whether every item of the steps that have been begun was taken.
  bool at_whole_step() const { return next_ % items_of_step_ == 0; }
  bool all_applied() const { return outstanding_.empty(); }

  // Takes the next work item; nullopt if more items must be applied first.
  std::optional<int64_t> take() {
    const int64_t oldest = outstanding_.empty() ? next_ : *outstanding_.begin();
    if (next_ / items_of_step_ - oldest / items_of_step_ > max_staleness_) return std::nullopt;
    outstanding_.insert(next_);
    return next_++;
  }
  // Marks a work item as applied. Returns false if it was not outstanding.
  bool applied(int64_t item) { return outstanding_.erase(item) == 1; }

 private:
  const int items_of_step_;
  const int64_t max_staleness_;
  int64_t next_;
  std::set<int64_t> outstanding_;  // taken and not yet applied
};

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_ITEM_COUNTER_H_
