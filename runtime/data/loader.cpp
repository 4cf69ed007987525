// The ring of batches that worker threads fill row by row, ahead of the consumer.
#include "runtime/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "runtime/data/batch_maker.h"

namespace runtime::data {

// A batch of the ring. A worker writes to the rows that it has taken, and nobody else does.
struct Slot {
  Batch batch;
  int64_t taken = 0;                     // rows before this one are read, or are being read
  int64_t reading = 0;                   // rows that workers are reading
  std::exception_ptr failure = nullptr;  // of planning, or of the first row that cannot be read
  int64_t failed_row = 0;

  bool is_done() const { return taken == batch.rows && reading == 0; }
};

// A ring of prefetch + 1 batches: the consumer holds one, and the workers make the others. Batches
// are counted since the start; batch n is in slot n % slots. Batches before `given` were returned,
// and those before `planned` have samples. One worker at a time plans a batch, outside of the
// mutex; then all workers take its rows in order, some at a time.
struct Loader::State {
  State(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
        std::pmr::memory_resource* memory)
      : workers(options.prefetch > 0 ? options.workers : 0),
        maker(std::move(dataset), options, memory),
        ring(memory),
        scratch(memory) {
    const auto slots = static_cast<std::size_t>(options.prefetch) + 1;
    ring.reserve(slots);
    for (std::size_t i = 0; i < slots; ++i) ring.push_back({maker.make_batch()});
    const auto scratches = static_cast<std::size_t>(std::max<int64_t>(workers, 1));
    scratch.reserve(scratches);
    while (scratch.size() < scratches) scratch.push_back(maker.make_scratch());
  }

  // If the system refuses a thread, the destructor ends those that were started.
  void start() {
    threads.reserve(static_cast<std::size_t>(workers));
    for (int64_t worker = 0; worker < workers; ++worker)
      threads.emplace_back([this, worker] { work(scratch[static_cast<std::size_t>(worker)]); });
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    work_is_there.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  Slot& slot(uint64_t number) { return ring[number % ring.size()]; }

  // Runs in each worker. Rows come before a new batch, so that batches are done in order.
  void work(BatchMaker::Scratch& own) {
    std::unique_lock lock(mutex);
    while (!stop) {
      if (open < planned) {
        read_some(slot(open), own, lock);
      } else if (may_plan()) {
        plan_next(lock);
      } else {
        work_is_there.wait(lock);
      }
    }
  }

  // The consumer still holds batch given - 1, whose slot is not written to.
  bool may_plan() const { return !planning && !ended && planned - given + 1 < ring.size(); }

  // Runs `work` without the lock, and returns what it throws.
  template <class Work>
  static std::exception_ptr run_unlocked(std::unique_lock<std::mutex>& lock, const Work& work) {
    std::exception_ptr failure;
    lock.unlock();
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    return failure;
  }

  void plan_next(std::unique_lock<std::mutex>& lock) {
    Slot& next = slot(planned);
    planning = true;
    next.failure = run_unlocked(lock, [&] { maker.plan(next.batch); });
    planning = false;
    ended = next.failure != nullptr;
    next.taken = ended ? next.batch.rows : 0;
    ++planned;
    skip_taken();
    work_is_there.notify_all();
    if (next.is_done()) batch_is_done.notify_one();
  }

  // Takes rows of a batch and reads them. After an error, further rows of the batch are left out.
  // Rows are taken in order, so the error that remains is that of the first bad row, whatever the
  // number of workers.
  void read_some(Slot& from, BatchMaker::Scratch& own, std::unique_lock<std::mutex>& lock) {
    const int64_t begin = from.taken, end = std::min(begin + rows_at_a_time(from), from.batch.rows);
    from.taken = end;
    from.reading += end - begin;
    skip_taken();
    std::exception_ptr failure =
        run_unlocked(lock, [&] { maker.read(from.batch, begin, end, own); });
    from.reading -= end - begin;
    if (failure && (!from.failure || begin < from.failed_row)) {
      from.failure = std::move(failure);
      from.failed_row = begin;
      from.taken = from.batch.rows;
      skip_taken();
    }
    if (from.is_done()) batch_is_done.notify_one();
  }

  // One worker reads all rows with one call. Several get a quarter of their share at a time, so
  // that none of them waits long for the others at the end of a batch.
  int64_t rows_at_a_time(const Slot& from) const {
    return workers == 1 ? from.batch.rows : std::max<int64_t>(1, from.batch.rows / (4 * workers));
  }

  // Moves `open` to the first batch that has rows to take.
  void skip_taken() {
    while (open < planned && slot(open).taken == slot(open).batch.rows) ++open;
  }

  const Batch& next_prefetched() {
    std::unique_lock lock(mutex);
    batch_is_done.wait(lock, [this] { return planned > given && slot(given).is_done(); });
    const Slot& next = slot(given);
    if (next.failure) std::rethrow_exception(next.failure);
    ++given;
    work_is_there.notify_one();
    return next.batch;
  }

  // A batch that cannot be read is tried again by the following call.
  const Batch& next_made_here() {
    Batch& batch = ring[0].batch;
    if (planned == given) {
      maker.plan(batch);
      ++planned;
    }
    maker.read(batch, 0, batch.rows, scratch[0]);
    ++given;
    return batch;
  }

  const int64_t workers;  // 0: next() makes the batches itself
  BatchMaker maker;
  std::pmr::vector<Slot> ring;
  std::pmr::vector<BatchMaker::Scratch> scratch;  // one for each worker
  std::mutex mutex;  // guards everything below but `threads`, and the slots
  std::condition_variable work_is_there, batch_is_done;
  uint64_t planned = 0, given = 0;
  uint64_t open = 0;      // the first batch that has rows to take
  bool planning = false;  // a worker is in maker.plan()
  bool ended = false;     // no batch can be planned any more
  bool stop = false;
  std::vector<std::thread> threads;
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
               std::pmr::memory_resource* memory)
    : state_(std::make_unique<State>(std::move(dataset), options, memory)) {
  state_->start();
}

Loader::~Loader() = default;

int64_t Loader::batches_per_epoch() const { return state_->maker.batches_per_epoch(); }

int64_t Loader::rows_of_batch(int64_t index) const { return state_->maker.rows_of_batch(index); }

const Batch& Loader::next() {
  return state_->workers == 0 ? state_->next_made_here() : state_->next_prefetched();
}

}  // namespace runtime::data
