// Ranks that are threads of a test and exchange bytes without a communicator.
#ifndef TESTS_RUNTIME_TRAIN_METRICS_FAKE_RANKS_H_
#define TESTS_RUNTIME_TRAIN_METRICS_FAKE_RANKS_H_

#include <gtest/gtest.h>

#include <barrier>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/train/metrics/family.h"

namespace runtime::train {

// Runs `work` on each of the ranks, with the rank and a gather over all of them. A rank that throws
// fails the test, and the others go on without it.
inline void on_ranks(int ranks, const std::function<void(int rank, const Gather& gather)>& work) {
  std::vector<std::vector<std::byte>> given(ranks);
  std::barrier meet(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto gather = [&, rank](const std::vector<std::byte>& own) {
        given[rank] = own;
        meet.arrive_and_wait();
        std::vector<std::vector<std::byte>> all = given;
        meet.arrive_and_wait();
        return all;
      };
      try {
        work(rank, gather);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
      meet.arrive_and_drop();
    });
  }
}

// Samples of a classification with their logits, in batches.
struct Samples {
  int64_t width = 0, batch = 0;
  std::vector<double> outputs;  // [rows, width]
  std::vector<int32_t> labels;
  std::vector<float> targets;  // [rows, width]

  int64_t rows() const { return static_cast<int64_t>(outputs.size()) / width; }
  int64_t batches() const { return (rows() + batch - 1) / batch; }
  // The predictions for one batch, in the memory of this object.
  Predictions of(int64_t index) const {
    Predictions p;
    p.batch = index;
    p.rows = std::min(batch, rows() - index * batch);
    p.width = width;
    p.outputs = outputs.data() + index * batch * width;
    if (!labels.empty()) p.labels = labels.data() + index * batch;
    if (!targets.empty()) p.targets = targets.data() + index * batch * width;
    return p;
  }
};

// The value of a metric when so many ranks take the batches in turn; all ranks must agree.
template <class Make>
double value_over_ranks(const Samples& samples, int ranks, const std::string& name,
                        const Make& make) {
  std::vector<double> values(ranks);
  on_ranks(ranks, [&](int rank, const Gather& gather) {
    const auto family = make();
    for (int64_t i = rank; i < samples.batches(); i += ranks) family->add(samples.of(i));
    family->combine(gather);
    values[rank] = family->value(name);
  });
  for (const double value : values) EXPECT_EQ(value, values[0]);
  return values[0];
}

}  // namespace runtime::train

#endif  // TESTS_RUNTIME_TRAIN_METRICS_FAKE_RANKS_H_
