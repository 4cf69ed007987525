// The order of the samples in an epoch.
#ifndef RUNTIME_DATA_ORDER_H_
#define RUNTIME_DATA_ORDER_H_

#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

namespace runtime::data {

// Fills `order` with the permutation of 0..order.size()-1 for an epoch, which depends on seed and
// epoch only (Fisher-Yates with numbers from Philox). Allocates nothing.
void fill_epoch_order(std::span<int64_t> order, bool shuffle, uint64_t seed, int64_t epoch);

// Returns which of `samples` samples has this place in an epoch, without a list of the others: a
// permutation by six rounds of a Feistel network with Philox over the next power of two, repeated
// until the result is a sample (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite
// Domains", 2002), which takes less than two repetitions on average. Any thread.
int64_t sample_at(int64_t place, int64_t samples, uint64_t seed, int64_t epoch);

// The order of one epoch after the other. It depends on the number of samples, seed and epoch only.
class EpochOrder {
 public:
  // A list takes 8 bytes for each sample, on each rank; above this number there is none, and the
  // order is that of sample_at() instead of fill_epoch_order().
  static constexpr int64_t kLongestList = int64_t{1} << 24;

  // `listed`: there is a list whatever the number, as in programs before 0.2. It comes from
  // `memory`, which must outlive the object.
  EpochOrder(int64_t samples, bool shuffle, uint64_t seed, bool listed,
             std::pmr::memory_resource* memory);
  // Goes to an epoch. Allocates nothing.
  void begin(int64_t epoch);
  // The sample at a place of that epoch.
  int64_t operator[](int64_t place) const {
    if (!list_.empty()) return list_[static_cast<std::size_t>(place)];
    return shuffle_ ? sample_at(place, samples_, seed_, epoch_) : place;
  }

 private:
  const int64_t samples_;
  const bool shuffle_;
  const uint64_t seed_;
  int64_t epoch_ = -1;  // -1: none yet
  std::pmr::vector<int64_t> list_;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_ORDER_H_
