// The order of the samples in an epoch.
#ifndef RUNTIME_DATA_ORDER_H_
#define RUNTIME_DATA_ORDER_H_

#include <cstdint>
#include <span>

namespace runtime::data {

// Fills `order` with the permutation of 0..order.size()-1 for an epoch, which depends on seed and
// epoch only (Fisher-Yates with numbers from Philox). Allocates nothing.
void fill_epoch_order(std::span<int64_t> order, bool shuffle, uint64_t seed, int64_t epoch);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_ORDER_H_
