// Checks batches, their order, prefetching, errors and allocations of the loader.
#include "runtime/data/loader.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <ostream>
#include <set>
#include <thread>

#include "runtime/error.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::ElementsAre;

// Sample i has features i and i + 0.5, label i modulo 3, and target -i. Samples from `bad` on
// throw.
class Counting final : public Dataset {
 public:
  explicit Counting(int64_t size, bool regression = false, int64_t bad = -1)
      : size_(size), bad_(bad) {
    spec_.shape = {2};
    (regression ? spec_.targets : spec_.classes) = regression ? 1 : 3;
  }
  const SampleSpec& spec() const override { return spec_; }
  int64_t size() const override { return size_; }
  void read_features(int64_t index, float* out) const override {
    if (bad_ >= 0 && index >= bad_) throw DataError("sample " + std::to_string(index) + " is bad");
    out[0] = static_cast<float>(index);
    out[1] = out[0] + 0.5f;
  }
  int32_t label(int64_t index) const override { return static_cast<int32_t>(index % 3); }
  void read_targets(int64_t index, float* out) const override { *out = -static_cast<float>(index); }
  std::string description() const override { return "counting"; }

 private:
  SampleSpec spec_;
  int64_t size_, bad_;
};

std::shared_ptr<const Dataset> counting_dataset(int64_t size, bool regression = false,
                                                int64_t bad = -1) {
  return std::make_shared<Counting>(size, regression, bad);
}

// Counts all memory that the loader asks for.
class CountingMemory final : public std::pmr::memory_resource {
 public:
  int64_t allocations() const { return allocations_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++allocations_;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::atomic<int64_t> allocations_ = 0;
};

struct Threads {
  int prefetch = 0, workers = 1;
};

std::ostream& operator<<(std::ostream& out, const Threads& threads) {
  return out << "prefetch_" << threads.prefetch << "_workers_" << threads.workers;
}

LoaderOptions options(int64_t batch, LastBatch last, Threads threads, bool shuffle = false) {
  return {.batch_size = batch,
          .shuffle = shuffle,
          .seed = 9,
          .last_batch = last,
          .prefetch = threads.prefetch,
          .workers = threads.workers};
}

class LoaderTest : public testing::TestWithParam<Threads> {};
INSTANTIATE_TEST_SUITE_P(Threads, LoaderTest,
                         testing::Values(Threads{0}, Threads{0, 3}, Threads{1}, Threads{1, 4},
                                         Threads{2}, Threads{2, 3}, Threads{5}, Threads{5, 4}),
                         testing::PrintToStringParamName());

TEST_P(LoaderTest, KeepsTheSmallerLastBatch) {
  Loader loader(counting_dataset(5), options(2, LastBatch::kKeep, GetParam()));
  EXPECT_EQ(loader.batches_per_epoch(), 3);
  EXPECT_EQ(loader.rows_of_batch(0), 2);
  EXPECT_EQ(loader.rows_of_batch(2), 1);
  loader.next();
  EXPECT_THAT(loader.next().features, ElementsAre(2, 2.5, 3, 3.5));
  const Batch& last = loader.next();
  EXPECT_THAT(last.features, ElementsAre(4, 4.5));
  EXPECT_THAT(last.labels, ElementsAre(1));
  EXPECT_TRUE(last.targets.empty());
  EXPECT_EQ(last.rows, 1);
  EXPECT_EQ(last.valid, 1);
  EXPECT_EQ(last.index, 2);
  const Batch& next_epoch = loader.next();
  EXPECT_EQ(next_epoch.epoch, 1);
  EXPECT_EQ(next_epoch.index, 0);
  EXPECT_THAT(next_epoch.labels, ElementsAre(0, 1));
}

TEST_P(LoaderTest, DropsTheSmallerLastBatch) {
  Loader loader(counting_dataset(5), options(2, LastBatch::kDrop, GetParam()));
  EXPECT_EQ(loader.batches_per_epoch(), 2);
  EXPECT_EQ(loader.rows_of_batch(1), 2);
  loader.next();
  loader.next();
  const Batch& next_epoch = loader.next();
  EXPECT_EQ(next_epoch.epoch, 1);
  EXPECT_THAT(next_epoch.features, ElementsAre(0, 0.5, 1, 1.5));
}

TEST_P(LoaderTest, PadsTheLastBatchWithTheLastSample) {
  Loader loader(counting_dataset(4, true), options(3, LastBatch::kPad, GetParam()));
  EXPECT_EQ(loader.batches_per_epoch(), 2);
  EXPECT_EQ(loader.rows_of_batch(1), 3);
  loader.next();
  const Batch& last = loader.next();
  EXPECT_EQ(last.rows, 3);
  EXPECT_EQ(last.valid, 1);
  EXPECT_THAT(last.features, ElementsAre(3, 3.5, 3, 3.5, 3, 3.5));
  EXPECT_THAT(last.targets, ElementsAre(-3, -3, -3));
  EXPECT_TRUE(last.labels.empty());
}

TEST_P(LoaderTest, BatchMayBeLargerThanTheDataSet) {
  Loader keep(counting_dataset(2), options(8, LastBatch::kKeep, GetParam()));
  EXPECT_EQ(keep.next().rows, 2);
  Loader pad(counting_dataset(2), options(8, LastBatch::kPad, GetParam()));
  EXPECT_EQ(pad.next().labels.size(), 8u);
}

TEST_P(LoaderTest, FollowsTheEpochOrderWhateverThePrefetch) {
  constexpr int64_t kSize = 23, kBatch = 4;
  LoaderOptions shuffled = options(kBatch, LastBatch::kKeep, GetParam(), true);
  shuffled.first_epoch = 5;
  Loader loader(counting_dataset(kSize), shuffled);
  for (int64_t epoch = 5; epoch < 8; ++epoch) {
    std::vector<int64_t> seen;
    for (int64_t i = 0; i < loader.batches_per_epoch(); ++i) {
      const Batch& batch = loader.next();
      EXPECT_EQ(batch.epoch, epoch);
      for (int64_t row = 0; row < batch.rows; ++row) {
        const float value = batch.features[static_cast<std::size_t>(2 * row)];
        seen.push_back(static_cast<int64_t>(value));
        EXPECT_EQ(batch.labels[static_cast<std::size_t>(row)], seen.back() % 3);
      }
    }
    EXPECT_EQ(seen, test::epoch_order(kSize, true, 9, epoch));
  }
}

TEST_P(LoaderTest, AllocatesNothingAfterConstruction) {
  CountingMemory memory;
  Loader loader(counting_dataset(50), options(8, LastBatch::kKeep, GetParam(), true), &memory);
  const int64_t before = memory.allocations();
  EXPECT_GT(before, 0);
  std::vector<const float*> places;
  for (int i = 0; i < 40; ++i) places.push_back(loader.next().features.data());
  EXPECT_EQ(memory.allocations(), before);
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  EXPECT_EQ(places.size(), static_cast<std::size_t>(GetParam().prefetch) + 1);
}

TEST_P(LoaderTest, BatchStaysUntilTheNextCall) {
  Loader loader(counting_dataset(100), options(10, LastBatch::kKeep, GetParam()));
  for (int i = 0; i < 30; ++i) {
    const Batch& batch = loader.next();
    const std::vector<float> copy(batch.features.begin(), batch.features.end());
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    EXPECT_TRUE(std::equal(copy.begin(), copy.end(), batch.features.begin()));
  }
}

// Virtual shards of one row, of batches of 2, are loaded in any order, over several epochs, with
// pauses.
TEST_P(LoaderTest, LoadsWhatIsPicked) {
  const std::vector<std::optional<Pick>> picks = {Pick{1, 1}, Pick{0, 0}, std::nullopt,
                                                  Pick{4, 0}, Pick{2, 1}, Pick{3, 0}};
  std::atomic<size_t> picked = 0;
  LoaderOptions o = options(2, LastBatch::kKeep, GetParam(), true);
  o.parts = 2;
  o.part = [](int64_t rows, int part) {
    return std::vector<int64_t>{part < rows ? int64_t{part} : -1};
  };
  o.pick = [&]() -> std::optional<Pick> {
    const size_t i = picked++;
    return i < picks.size() ? picks[i] : std::nullopt;
  };
  Loader loader(counting_dataset(5), o);
  for (const std::optional<Pick>& pick : picks) {
    const Batch& batch = loader.next();
    ASSERT_EQ(batch.rows, pick ? 1 : 0);
    if (!pick) continue;
    EXPECT_EQ(batch.epoch, pick->batch / 3);
    EXPECT_EQ(batch.index, pick->batch % 3);
    EXPECT_EQ(batch.part, pick->part);
    const bool padding = batch.index == 2 && pick->part == 1;  // the last batch has one sample
    EXPECT_EQ(batch.valid, padding ? 0 : 1);
    const std::vector<int64_t> order = test::epoch_order(5, true, 9, batch.epoch);
    EXPECT_EQ(batch.features[0], order[2 * batch.index + (padding ? 0 : pick->part)]);
  }
}

TEST_P(LoaderTest, RethrowsWhatTheDataSetThrows) {
  Loader loader(counting_dataset(10, false, 5), options(2, LastBatch::kKeep, GetParam()));
  EXPECT_THAT(loader.next().features, ElementsAre(0, 0.5, 1, 1.5));
  EXPECT_THAT(loader.next().features, ElementsAre(2, 2.5, 3, 3.5));
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(test::message_of([&] { loader.next(); }), testing::HasSubstr("sample 5 is bad"));
}

TEST_P(LoaderTest, CanBeDestroyedAtAnyTime) {
  for (int calls = 0; calls < 20; ++calls) {
    Loader loader(counting_dataset(7), options(2, LastBatch::kKeep, GetParam()));
    for (int i = 0; i < calls; ++i) loader.next();
  }
}

// All rows from the 7th on are bad; the message is about the 7th, although other workers fail too.
TEST(LoaderWorkers, TheErrorIsThatOfTheFirstBadRow) {
  for (int i = 0; i < 50; ++i) {
    Loader loader(counting_dataset(64, false, 7), options(32, LastBatch::kKeep, {2, 4}));
    EXPECT_THAT(test::message_of([&] { loader.next(); }), testing::HasSubstr("sample 7 is bad"));
  }
}

// Asking for the next work item may fail as well. The batches before are returned.
TEST(LoaderWorkers, AnErrorOfPlanningIsThatOfItsBatch) {
  LoaderOptions o = options(2, LastBatch::kKeep, {3, 4});
  int64_t batch = 0;
  o.pick = [&]() -> std::optional<Pick> {
    if (batch == 2) throw DataError("no further item");
    return Pick{batch++, 0};
  };
  Loader loader(counting_dataset(10), o);
  EXPECT_THAT(loader.next().features, ElementsAre(0, 0.5, 1, 1.5));
  EXPECT_THAT(loader.next().features, ElementsAre(2, 2.5, 3, 3.5));
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(test::message_of([&] { loader.next(); }), testing::HasSubstr("no further item"));
}

// A data set that tells who reads it.
class Watched final : public Dataset {
 public:
  // Reading a sample waits until `together` threads read, or for ten seconds.
  explicit Watched(int together) : together_(together) { spec_.shape = {1}, spec_.classes = 1; }
  const SampleSpec& spec() const override { return spec_; }
  int64_t size() const override { return 1000; }
  void read_features(int64_t index, float* out) const override {
    *out = static_cast<float>(index);
    std::unique_lock lock(mutex_);
    threads_.insert(std::this_thread::get_id());
    ++reads_;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(10),
                      [this] { return threads_.size() >= static_cast<std::size_t>(together_); });
  }
  int32_t label(int64_t) const override { return 0; }
  void read_targets(int64_t, float*) const override {}
  std::string description() const override { return "watched"; }
  std::size_t threads() const {
    const std::lock_guard lock(mutex_);
    return threads_.size();
  }
  int64_t reads() const {
    const std::lock_guard lock(mutex_);
    return reads_;
  }

 private:
  SampleSpec spec_;
  int together_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::set<std::thread::id> threads_;
  mutable int64_t reads_ = 0;
};

TEST(LoaderWorkers, ShareTheRowsOfOneBatch) {
  const auto dataset = std::make_shared<Watched>(4);
  Loader loader(dataset, options(16, LastBatch::kKeep, {1, 4}));
  loader.next();
  EXPECT_EQ(dataset->threads(), 4u);
}

TEST(LoaderWorkers, MakeNoMoreThanThePrefetch) {
  const auto dataset = std::make_shared<Watched>(1);
  Loader loader(dataset, options(10, LastBatch::kKeep, {3, 4}));
  for (int64_t held = 0; held < 3; ++held) {
    while (dataset->reads() < 10 * (3 + held)) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(dataset->reads(), 10 * (3 + held));
    loader.next();
  }
}

TEST(LoaderWorkers, EndWhileTheyAreBusy) {
  for (int calls = 0; calls < 5; ++calls) {
    const auto dataset = std::make_shared<Watched>(1);
    {
      Loader loader(dataset, options(50, LastBatch::kKeep, {4, 4}));
      for (int i = 0; i < calls; ++i) loader.next();
    }
    EXPECT_EQ(dataset.use_count(), 1);
    const int64_t reads = dataset->reads();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(dataset->reads(), reads);
  }
}

TEST(LoaderErrors, NoBatch) {
  EXPECT_THROW(Loader(counting_dataset(3), options(4, LastBatch::kDrop, {0})), DataError);
  EXPECT_THROW(Loader(counting_dataset(0), options(4, LastBatch::kKeep, {0})), DataError);
  EXPECT_THROW(Loader(counting_dataset(3), options(0, LastBatch::kKeep, {0})), DataError);
  EXPECT_THROW(Loader(counting_dataset(3), options(1, LastBatch::kKeep, {-1})), DataError);
  EXPECT_THROW(Loader(counting_dataset(3), options(1, LastBatch::kKeep, {2, 0})), DataError);
}

}  // namespace
}  // namespace runtime::data
