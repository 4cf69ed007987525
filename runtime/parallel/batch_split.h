// Decides which samples of a global batch a rank computes.
#ifndef RUNTIME_PARALLEL_BATCH_SPLIT_H_
#define RUNTIME_PARALLEL_BATCH_SPLIT_H_

#include <cstdint>
#include <vector>

namespace runtime::parallel {

// How global batches are cut. All fields but `rank` are the same on every rank. Ranks are those of
// the data axis.
struct BatchSplit {
  int rank = 0, world_size = 1;
  // The relative amount of samples of each rank, by rank: any positive numbers; empty: equal.
  std::vector<double> weights = {};
  // Rows of one micro-batch; 0: all rows of the rank in one pass.
  int64_t micro_batch = 0;
  // If above 0, the batch is cut into this many virtual shards whatever the number of ranks, and a
  // rank computes shards_of_rank() of them (debug.deterministic).
  int virtual_shards = 0;
  // If above 0, the rows of a rank are cut into this many micro-batches that go through a pipeline.
  int pipelined = 0;

  // The number of blocks of rows (virtual shards or micro-batches) that one step graph takes.
  int shards_of_rank() const {
    if (pipelined > 0) return pipelined;
    return virtual_shards == 0 ? 1 : (virtual_shards + world_size - 1) / world_size;
  }
};

// The number of samples of each rank: in proportion to the weights, rounded so that they add up to
// `global_rows` (largest remainder; ties go to the lower rank), e.g. 10 on 4 ranks -> 3, 3, 2, 2.
std::vector<int64_t> shares(int64_t global_rows, const BatchSplit& split);

// The number of micro-steps, passes over the model, that a step of such a batch takes; the same on
// every rank. Equivalent to: gradient accumulation steps in DeepSpeed.
int64_t micro_steps(int64_t global_rows, const BatchSplit& split);

// The positions in the batch of this rank's rows; -1 is a row of padding. Ranks take consecutive
// positions. The rows form micro_steps() (or shards_of_rank()) blocks of the same size. There is at
// least one row, so that a rank without a sample takes part in every collective.
std::vector<int64_t> rows_of_rank(int64_t global_rows, const BatchSplit& split);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_BATCH_SPLIT_H_
