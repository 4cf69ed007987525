// Which samples of a global batch a rank computes.
#ifndef RUNTIME_PARALLEL_BATCH_SPLIT_H_
#define RUNTIME_PARALLEL_BATCH_SPLIT_H_

#include <cstdint>
#include <vector>

namespace runtime::parallel {

// How batches are cut. The same on every rank, but for `rank`.
struct BatchSplit {
  int rank = 0, world_size = 1;
  // Parts of each rank, in proportion; empty: equal. Any positive numbers.
  std::vector<double> weights = {};
  // Rows that are computed at once; 0: the whole share.
  int64_t micro_batch = 0;
  // > 0: the batch is cut in so many shards whatever the number of ranks, and a rank computes
  // shards_of_rank() of them (debug.deterministic).
  int virtual_shards = 0;
  // > 0: a rank's share is cut in so many micro-batches that go through a pipeline.
  int pipelined = 0;

  // Blocks of rows that one pass over the model takes.
  int shards_of_rank() const {
    if (pipelined > 0) return pipelined;
    return virtual_shards == 0 ? 1 : (virtual_shards + world_size - 1) / world_size;
  }
};

// Samples of every rank: in proportion to the weights, rounded so that they add up (largest
// remainder; ties to the lower rank), e.g. 10 on 4 ranks -> 3, 3, 2, 2.
std::vector<int64_t> shares(int64_t global_rows, const BatchSplit& split);

// Passes over the model that a step of such a batch takes, the same on every rank.
int64_t micro_steps(int64_t global_rows, const BatchSplit& split);

// The rank's rows of a batch, by position in it; -1 is a row of padding. Ranks take consecutive
// positions. The rows are micro_steps() (or shards_of_rank()) blocks of the same size, and there is
// at least one row, so that a rank without a sample takes part.
std::vector<int64_t> rows_of_rank(int64_t global_rows, const BatchSplit& split);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_BATCH_SPLIT_H_
