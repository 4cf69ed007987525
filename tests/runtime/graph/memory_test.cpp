// Checks that plans never overlap, reuse memory, and keep within pieces.
#include "runtime/graph/memory.h"

#include <gtest/gtest.h>

#include <random>

namespace runtime::graph {
namespace {

bool alive_together(const BufferRequest& a, const BufferRequest& b) {
  return a.first <= b.last && b.first <= a.last;
}

void expect_sound(const std::vector<BufferRequest>& requests, const MemoryPlan& plan,
                  uint64_t alignment) {
  ASSERT_EQ(plan.offsets.size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % alignment, 0u);
    EXPECT_LE(plan.offsets[i] + requests[i].bytes, plan.bytes);
    for (size_t j = 0; j < i; ++j) {
      if (!alive_together(requests[i], requests[j])) continue;
      const bool apart = plan.offsets[i] + requests[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + requests[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(apart) << "buffers " << i << " and " << j;
    }
  }
  EXPECT_GE(plan.bytes, plan.lower_bound);
}

TEST(MemoryPlan, NeverOverlapsWhatLivesAtTheSameTime) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const uint64_t alignment = uint64_t{1} << random() % 9;
    const int steps = 1 + static_cast<int>(random() % 30);
    std::vector<BufferRequest> requests(random() % 60);
    for (BufferRequest& r : requests) {
      r.bytes = 1 + (random() % 4 == 0 ? random() % 100000 : random() % 500);
      r.first = static_cast<int>(random() % steps);
      r.last = r.first + static_cast<int>(random() % (steps - r.first));
    }
    expect_sound(requests, plan_memory(requests, alignment), alignment);
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(MemoryPlan, NoBufferLiesInTwoPieces) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const uint64_t alignment = uint64_t{1} << random() % 6, piece = 512 * alignment;
    std::vector<BufferRequest> requests(random() % 60);
    for (BufferRequest& r : requests) {
      r.bytes = random() % 5 == 0 ? piece : random() % piece;
      r.first = static_cast<int>(random() % 20);
      r.last = r.first + static_cast<int>(random() % 10);
    }
    const MemoryPlan plan = plan_memory(requests, alignment, piece);
    expect_sound(requests, plan, alignment);
    for (size_t i = 0; i < requests.size(); ++i) {
      const uint64_t last = plan.offsets[i] + std::max<uint64_t>(requests[i].bytes, 1) - 1;
      EXPECT_EQ(plan.offsets[i] / piece, last / piece) << requests[i].bytes << " bytes";
    }
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(MemoryPlan, WhatStandsInTheWayOfAPieceIsPassed) {
  // The third does not fit behind the first in piece 0, nor in front of the second in piece 1.
  const MemoryPlan plan = plan_memory({{96, 0, 9}, {128, 0, 9}, {64, 0, 9}}, 32, 128);
  EXPECT_EQ(plan.offsets, (std::vector<uint64_t>{128, 0, 256}));
}

TEST(MemoryPlan, UsesMemoryAgain) {
  // A chain: each buffer overlaps its neighbours in time only, so two places are enough.
  std::vector<BufferRequest> chain;
  for (int i = 0; i < 20; ++i) chain.push_back({1024, i, i + 1});
  const MemoryPlan plan = plan_memory(chain, 64);
  EXPECT_EQ(plan.lower_bound, 2048u);
  EXPECT_EQ(plan.bytes, 2048u);
}

// Placed by size alone, the buffers would take six places; five are enough.
TEST(MemoryPlan, BuffersOfAboutTheSameSizeTakeTurns) {
  std::vector<BufferRequest> turns;
  for (int i = 0; i < 20; ++i) turns.push_back({1024 + 64 * (i % uint64_t{3}), i, i + 3});
  const MemoryPlan plan = plan_memory(turns, 64);
  expect_sound(turns, plan, 64);
  EXPECT_LE(plan.bytes, 5 * 1152u);
}

TEST(MemoryPlan, LowerBoundIsTheMostAliveAtOnce) {
  const std::vector<BufferRequest> requests = {{100, 0, 2}, {50, 2, 3}, {1000, 3, 3}, {10, 5, 9}};
  EXPECT_EQ(plan_memory(requests, 1).lower_bound, 1050u);
  // Sizes are rounded up to the alignment.
  EXPECT_EQ(plan_memory(requests, 64).lower_bound, 64u + 1024u);
}

TEST(MemoryPlan, OfNothingIsNothing) {
  EXPECT_EQ(plan_memory({}, 64).bytes, 0u);
  EXPECT_EQ(plan_memory({{0, 0, 3}}, 64).bytes, 0u);
}

}  // namespace
}  // namespace runtime::graph
