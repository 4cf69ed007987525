// Batches of a data set: their order, prefetching and the last batch of an epoch.
#ifndef RUNTIME_DATA_LOADER_H_
#define RUNTIME_DATA_LOADER_H_

#include <cstdint>
#include <memory>
#include <memory_resource>

#include "runtime/data/batch.h"
#include "runtime/data/dataset.h"

namespace runtime::data {

// An endless sequence of batches: the first batch of an epoch follows the last one of the epoch
// before. LoaderOptions::workers threads make them ahead, in order, and their bits do not depend on
// how many these are. One thread calls next(); the destructor joins the workers. Equivalent to:
// torch.utils.data.DataLoader with num_workers and persistent_workers, but with threads and without
// an end.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
         std::pmr::memory_resource* memory = std::pmr::get_default_resource());
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int64_t batches_per_epoch() const;
  int64_t rows_of_batch(int64_t index) const;  // rows of the global batch

  // Returns the next batch, which is valid until the following call. Its memory is then used again,
  // so that a step allocates nothing. If a sample of the batch cannot be read, throws what the data
  // set has thrown for the first one; the batches before are returned as if nothing had happened.
  const Batch& next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_LOADER_H_
