// Deals rows out to ranks, virtual shards and micro-batches, with padding where they are uneven.
#include "runtime/parallel/batch_split.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace runtime::parallel {

namespace {

int64_t round_up_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::vector<double> weights_of(const BatchSplit& split) {
  return split.weights.empty() ? std::vector<double>(split.world_size, 1.0) : split.weights;
}

// Appends `count` positions from `first` on, then padding up to `block` rows.
void append_block(std::vector<int64_t>& rows, int64_t first, int64_t count, int64_t block) {
  for (int64_t i = 0; i < block; ++i) rows.push_back(i < count ? first + i : -1);
}

// The rows of this rank's virtual shards. Shards are of almost equal size, the larger ones first;
// the shards of a rank are adjacent.
std::vector<int64_t> rows_of_shards(int64_t global_rows, const BatchSplit& split) {
  const int64_t total = split.virtual_shards, block = round_up_divide(global_rows, total);
  const int64_t size = global_rows / total, larger = global_rows % total;
  std::vector<int64_t> rows;
  for (int i = 0; i < split.shards_of_rank(); ++i) {
    const int64_t shard = int64_t{split.rank} * split.shards_of_rank() + i;
    const bool exists = shard < total;
    append_block(rows, shard * size + std::min(shard, larger),
                 exists ? size + (shard < larger ? 1 : 0) : 0, block);
  }
  return rows;
}

}  // namespace

std::vector<int64_t> shares(int64_t global_rows, const BatchSplit& split) {
  const std::vector<double> weights = weights_of(split);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> result(weights.size());
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<double> remainder(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const double exact = static_cast<double>(global_rows) * weights[i] / sum;
    result[i] = static_cast<int64_t>(std::floor(exact));
    remainder[i] = exact - std::floor(exact);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return remainder[a] > remainder[b]; });
  const int64_t left = global_rows - std::accumulate(result.begin(), result.end(), int64_t{0});
  for (int64_t i = 0; i < left; ++i) ++result[order[i % order.size()]];
  return result;
}

int64_t micro_steps(int64_t global_rows, const BatchSplit& split) {
  if (split.virtual_shards > 0 || split.pipelined > 0 || split.micro_batch == 0) return 1;
  const std::vector<int64_t> all = shares(global_rows, split);
  return std::max<int64_t>(
      1, round_up_divide(*std::max_element(all.begin(), all.end()), split.micro_batch));
}

std::vector<int64_t> rows_of_rank(int64_t global_rows, const BatchSplit& split) {
  if (split.virtual_shards > 0) return rows_of_shards(global_rows, split);
  const std::vector<int64_t> all = shares(global_rows, split);
  const int64_t first = std::accumulate(all.begin(), all.begin() + split.rank, int64_t{0});
  const int64_t steps = micro_steps(global_rows, split), own = all[split.rank];
  const int64_t blocks = split.pipelined > 0 ? split.pipelined : steps;
  const int64_t block =
      steps > 1 ? split.micro_batch : std::max<int64_t>(round_up_divide(own, blocks), 1);
  std::vector<int64_t> rows;
  append_block(rows, first, own, blocks * block);
  return rows;
}

}  // namespace runtime::parallel
