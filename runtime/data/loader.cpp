#include "runtime/data/loader.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "runtime/data/batch_maker.h"

namespace runtime::data {

// A ring of prefetch + 1 batches: the consumer holds one, and the background thread fills the
// others. `made` and `given` count batches since the start; batch n is in slot n % slots.
struct Loader::State {
  State(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
        std::pmr::memory_resource* memory)
      : maker(std::move(dataset), options, memory), ring(memory) {
    const auto slots = static_cast<std::size_t>(options.prefetch) + 1;
    ring.reserve(slots);
    for (std::size_t i = 0; i < slots; ++i) ring.push_back(maker.make_batch());
    if (options.prefetch > 0) thread = std::thread([this] { run(); });
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  Batch& slot(uint64_t number) { return ring[number % ring.size()]; }

  // Runs in the background thread. The consumer still holds batch given - 1, whose slot is not
  // written to.
  void run() {
    try {
      while (wait_for_slot()) {
        maker.fill(slot(made));
        const std::lock_guard lock(mutex);
        ++made;
        changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      changed.notify_all();
    }
  }

  bool wait_for_slot() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stop || made - given + 1 < ring.size(); });
    return !stop;
  }

  // Batches that were made before a failure are still returned.
  const Batch& next_prefetched() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return failure != nullptr || made > given; });
    if (made == given) std::rethrow_exception(failure);
    ++given;
    changed.notify_all();
    return slot(given - 1);
  }

  BatchMaker maker;
  std::pmr::vector<Batch> ring;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t made = 0;   // written by the background thread, under the mutex
  uint64_t given = 0;  // written by the consumer, under the mutex
  bool stop = false;
  std::exception_ptr failure;
  std::thread thread;
};

Batch zero_batch(const SampleSpec& spec, int64_t rows) {
  const auto count = static_cast<std::size_t>(rows);
  std::size_t features = count;
  for (const int64_t dim : spec.shape) features *= static_cast<std::size_t>(dim);
  Batch batch;
  batch.rows = batch.valid = batch.global_rows = batch.global_valid = rows;
  batch.positions.assign(count, 0);
  batch.features.assign(features, 0.0f);
  if (spec.classes > 0) batch.labels.assign(count * static_cast<std::size_t>(spec.labels), 0);
  batch.targets.assign(count * static_cast<std::size_t>(spec.targets), 0.0f);
  return batch;
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
               std::pmr::memory_resource* memory)
    : state_(std::make_unique<State>(std::move(dataset), options, memory)) {}

Loader::~Loader() = default;

int64_t Loader::batches_per_epoch() const { return state_->maker.batches_per_epoch(); }

int64_t Loader::rows_of_batch(int64_t index) const { return state_->maker.rows_of_batch(index); }

const Batch& Loader::next() {
  if (state_->thread.joinable()) return state_->next_prefetched();
  state_->maker.fill(state_->ring[0]);
  return state_->ring[0];
}

}  // namespace runtime::data
