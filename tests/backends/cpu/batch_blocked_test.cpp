// Compares the batch-blocked kernels with plain loops, for every instruction set that this machine
// has.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/batch_blocked/convolution.h"
#include "backends/cpu/batch_blocked/packed_gradient.h"
#include "backends/cpu/batch_blocked/pooling.h"
#include "backends/cpu/batch_blocked/reorder.h"
#include "backends/cpu/batch_blocked/weight_gradient.h"
#include "backends/cpu/batch_blocked/winograd.h"
#include "backends/cpu/batch_blocked/winograd_gradient.h"
#include "tests/backends/cpu/batch_blocked_support.h"

namespace backends::cpu::batch_blocked {
namespace {

TEST(BatchBlocked, ForwardWithBiasAndRelu) {
  for_all([](const ConvShape& s) {
    const Data data(s);
    const Values bias = numbers(s.o, 4);
    Values expected(data.y.size());
    for_products(s, [&](size_t x, size_t w, size_t y) { expected[y] += data.x[x] * data.w[w]; });
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = std::max(0.0f, expected[i] + bias[i % bias.size()]);
    }
    return [=](const KernelTable& k, int threads) {
      Buffer x = block(data.x, s.n), w = copy(data.w), b = copy(bias);
      PostOps post;
      post.ops[post.count++] = {Post::kBias, b.get()};
      post.ops[post.count++] = {Post::kRelu, nullptr};
      const Convolution op(s, Direction::kForward, threads, k);
      expect_near(run(op, x, w, s.p * s.q * s.o, s.n, post), expected, "y");
    };
  });
}

TEST(BatchBlocked, ForwardWithResidualAndTanhBackward) {
  for_all([](const ConvShape& s) {
    const Data data(s);
    const Values residual = numbers(static_cast<int64_t>(data.y.size()), 5), saved = data.y;
    Values expected(data.y.size());
    for_products(s, [&](size_t x, size_t w, size_t y) { expected[y] += data.x[x] * data.w[w]; });
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = (expected[i] + residual[i]) * (1 - saved[i] * saved[i]);
    }
    return [=](const KernelTable& k, int threads) {
      Buffer x = block(data.x, s.n), w = copy(data.w), r = block(residual, s.n),
             y = block(saved, s.n);
      PostOps post;
      post.ops[post.count++] = {Post::kResidualAdd, r.get()};
      post.ops[post.count++] = {Post::kTanhBackward, y.get()};
      const Convolution op(s, Direction::kForward, threads, k);
      expect_near(run(op, x, w, s.p * s.q * s.o, s.n, post), expected, "y");
    };
  });
}

TEST(BatchBlocked, BackwardDataWithReluBackward) {
  for_all([](const ConvShape& s) {
    const Data data(s);
    Values expected(data.x.size());
    for_products(s, [&](size_t x, size_t w, size_t y) { expected[x] += data.y[y] * data.w[w]; });
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = data.x[i] > 0 ? expected[i] : 0.0f;
    return [=](const KernelTable& k, int threads) {
      Buffer dy = block(data.y, s.n), w = copy(data.w), saved = block(data.x, s.n);
      PostOps post;
      post.ops[post.count++] = {Post::kReluBackward, saved.get()};
      const Convolution op(s, Direction::kBackwardData, threads, k);
      expect_near(run(op, dy, w, s.h * s.w * s.c, s.n, post), expected, "dx");
    };
  });
}

constexpr double kWinogradTolerance = 1e-5;

TEST(BatchBlocked, WinogradForwardWithBiasAndRelu) {
  for_all([](const ConvShape& s) {
    const Data data(s);
    const Values bias = numbers(s.o, 4);
    Values expected(data.y.size());
    for_products(s, [&](size_t x, size_t w, size_t y) { expected[y] += data.x[x] * data.w[w]; });
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = std::max(0.0f, expected[i] + bias[i % bias.size()]);
    }
    return [=](const KernelTable& k, int threads) {
      if (!find_winograd(s, k)) return;
      Buffer x = block(data.x, s.n), w = copy(data.w), b = copy(bias);
      PostOps post;
      post.ops[post.count++] = {Post::kBias, b.get()};
      post.ops[post.count++] = {Post::kRelu, nullptr};
      const Winograd op(s, Direction::kForward, threads, k);
      expect_near(run(op, x, w, s.p * s.q * s.o, s.n, post), expected, "y", kWinogradTolerance);
    };
  });
}

TEST(BatchBlocked, WinogradBackwardDataWithReluBackward) {
  for_all([](const ConvShape& s) {
    const Data data(s);
    Values expected(data.x.size());
    for_products(s, [&](size_t x, size_t w, size_t y) { expected[x] += data.y[y] * data.w[w]; });
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = data.x[i] > 0 ? expected[i] : 0.0f;
    return [=](const KernelTable& k, int threads) {
      if (!find_winograd(s, k)) return;
      Buffer dy = block(data.y, s.n), w = copy(data.w), saved = block(data.x, s.n);
      PostOps post;
      post.ops[post.count++] = {Post::kReluBackward, saved.get()};
      const Winograd op(s, Direction::kBackwardData, threads, k);
      expect_near(run(op, dy, w, s.h * s.w * s.c, s.n, post), expected, "dx", kWinogradTolerance);
    };
  });
}

// Padding lanes are NaN, and none of them may be added to a sum.
TEST(BatchBlocked, BackwardWeightsIgnoresPaddingLanes) {
  for_all([](const ConvShape& s) {
    const WeightGradients expected(s);
    return [=](const KernelTable& k, int threads) {
      check_weight_gradient(WeightGradient(s, threads, k), s, expected, 2e-6);
    };
  });
}

TEST(BatchBlocked, WinogradBackwardWeightsIgnoresPaddingLanes) {
  for_all([](const ConvShape& s) {
    const WeightGradients expected(s);
    return [=](const KernelTable& k, int threads) {
      if (!find_winograd(s, k)) return;
      check_weight_gradient(WinogradGradient(s, threads, k), s, expected, kWinogradTolerance);
    };
  });
}

TEST(BatchBlocked, PackedBackwardWeightsIgnoresPaddingLanes) {
  for_all([](const ConvShape& s) {
    const WeightGradients expected(s);
    return [=](const KernelTable& k, int threads) {
      const Isa isa = k.lanes == 16 ? Isa::kAvx512 : k.lanes == 8 ? Isa::kAvx2 : Isa::kGeneric;
      check_weight_gradient(PackedGradient(s, threads, gradient_kernels_for(isa), k), s, expected,
                            2e-6);
    };
  });
}

// make() makes the operation.
template <typename Make>
void check_same_bits(const ConvShape& s, Make make) {
  const Data data(s);
  Buffer x = block(data.x, s.n), dy = block(data.y, s.n);
  std::vector<Values> results;
  for (int i = 0; i < 3; ++i) {
    const auto op = make();
    Buffer dw(static_cast<int64_t>(data.w.size()));
    Buffer workspace(static_cast<int64_t>(op.workspace_bytes() / 4));
    op.run(x.get(), dy.get(), dw.get(), nullptr, workspace.get());
    results.emplace_back(dw.get(), dw.get() + dw.size());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(BatchBlocked, GradientsAreTheSameBitsEveryTime) {
  const ConvShape s = conv(40, 9, 9, 6, 10, 5, 5);
  const KernelTable& k = kernels_for(widest_isa());
  check_same_bits(s, [&] { return WeightGradient(s, 3, k); });
  check_same_bits(s, [&] { return WinogradGradient(s, 3, k); });
  check_same_bits(s, [&] { return PackedGradient(s, 3, gradient_kernels_for(widest_isa()), k); });
  if (matrix_unit_gradient_kernels() == nullptr) return;
  check_same_bits(s, [&] { return PackedGradient(s, 3, *matrix_unit_gradient_kernels(), k); });
}

// There are enough threads for one tile each: samples are split into groups whose results are
// added.
TEST(BatchBlocked, BackwardWeightsSplitsSamplesWhenTilesAreFew) {
  const ConvShape s = conv(100, 6, 6, 1, 2, 1, 1);
  const Data data(s);
  Values expected(data.w.size());
  for_products(s, [&](size_t x, size_t w, size_t y) { expected[w] += data.x[x] * data.y[y]; });
  Buffer x = block(data.x, s.n), dy = block(data.y, s.n), dw(s.o), db(s.o);
  const WeightGradient op(s, 4, kernels_for(widest_isa()));
  Buffer workspace(static_cast<int64_t>(op.workspace_bytes() / 4));
  op.run(x.get(), dy.get(), dw.get(), db.get(), workspace.get());
  expect_near(Values(dw.get(), dw.get() + s.o), expected, "dw");
}

std::vector<PoolShape> pool_shapes() {
  std::vector<PoolShape> shapes = {
      {16, 8, 8, 20, 4, 4, 2, 2, 2, 2, 0, 0, true}, {5, 9, 9, 5, 4, 4, 2, 2, 2, 2, 0, 0, true},
      {17, 9, 7, 3, 5, 4, 3, 3, 2, 2, 1, 1, true},  {1, 6, 6, 2, 4, 4, 3, 3, 1, 1, 0, 0, true},
      {33, 7, 7, 1, 4, 4, 3, 2, 2, 2, 1, 0, false}, {3, 8, 8, 2, 2, 2, 2, 2, 4, 4, 0, 0, false},
  };
  return shapes;
}

// Calls visit(x index, y index, position, number of elements that are not padding) for every
// element of every window.
template <typename Visit>
void for_windows(const PoolShape& s, Visit visit) {
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t p = 0; p < s.p; ++p)
      for (int64_t q = 0; q < s.q; ++q)
        for (int64_t c = 0; c < s.c; ++c) {
          std::vector<std::pair<size_t, int64_t>> inside;
          for (int64_t i = 0; i < s.kernel_h; ++i)
            for (int64_t j = 0; j < s.kernel_w; ++j) {
              const int64_t h = p * s.stride_h - s.pad_top + i, w = q * s.stride_w - s.pad_left + j;
              if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
              inside.emplace_back(((n * s.h + h) * s.w + w) * s.c + c, i * s.kernel_w + j);
            }
          for (const auto& [x, position] : inside) {
            visit(x, static_cast<size_t>(((n * s.p + p) * s.q + q) * s.c + c), position,
                  static_cast<int64_t>(inside.size()));
          }
        }
}

TEST(BatchBlocked, AveragePoolingAndItsGradient) {
  for (const Isa isa : usable_isas()) {
    const KernelTable& kernels = kernels_for(isa);
    for (const PoolShape& s : pool_shapes()) {
      SCOPED_TRACE(std::string(kernels.name) + " kernel " + std::to_string(s.kernel_h));
      const Values x = numbers(s.n * s.h * s.w * s.c, 1), dy = numbers(s.n * s.p * s.q * s.c, 2);
      Values y(dy.size()), dx(x.size());
      for_windows(s, [&](size_t xi, size_t yi, int64_t, int64_t inside) {
        const auto divisor =
            static_cast<float>(s.count_include_pad ? s.kernel_h * s.kernel_w : inside);
        y[yi] += x[xi] / divisor;
        dx[xi] += dy[yi] / divisor;
      });
      for (float& v : y) v = std::max(v, 0.0f);
      for (size_t i = 0; i < dx.size(); ++i) dx[i] = x[i] > 0 ? dx[i] : 0.0f;
      Buffer bx = block(x, s.n), bdy = block(dy, s.n), by(bdy.size()), bdx(bx.size());
      const Pooling op(s, PoolKind::kAverage, 2, kernels);
      op.forward(bx.get(), by.get(), nullptr, {1, {{Post::kRelu, nullptr}}});
      expect_near(unblock(by, s.n), y, "y");
      if (!Pooling::supports_backward(s, PoolKind::kAverage)) continue;
      op.backward(bdy.get(), nullptr, bdx.get(), {1, {{Post::kReluBackward, bx.get()}}});
      expect_near(unblock(bdx, s.n), dx, "dx");
    }
  }
}

TEST(BatchBlocked, MaxPoolingAndItsGradient) {
  for (const Isa isa : usable_isas()) {
    const KernelTable& kernels = kernels_for(isa);
    for (const PoolShape& s : pool_shapes()) {
      SCOPED_TRACE(std::string(kernels.name) + " kernel " + std::to_string(s.kernel_h));
      Values x = numbers(s.n * s.h * s.w * s.c, 1), dy = numbers(s.n * s.p * s.q * s.c, 2);
      for (float& v : x) v = std::round(v * 4) / 4;  // rounding makes ties, of which the first wins
      Values y(dy.size(), -2.0f), dx(x.size());
      std::vector<uint8_t> winners(y.size()), saved(y.size());
      std::vector<size_t> from(y.size());
      for_windows(s, [&](size_t xi, size_t yi, int64_t position, int64_t) {
        if (x[xi] <= y[yi]) return;
        y[yi] = x[xi];
        winners[yi] = static_cast<uint8_t>(position);
        from[yi] = xi;
      });
      for (size_t i = 0; i < y.size(); ++i) dx[from[i]] += dy[i];
      Buffer bx = block(x, s.n), bdy = block(dy, s.n), by(bdy.size()), bdx(bx.size());
      const Pooling op(s, PoolKind::kMax, 2, kernels);
      op.forward(bx.get(), by.get(), saved.data(), {});
      EXPECT_EQ(unblock(by, s.n), y);
      EXPECT_EQ(saved, winners);
      op.backward(bdy.get(), saved.data(), bdx.get(), {});
      expect_near(unblock(bdx, s.n), dx, "dx");
    }
  }
}

TEST(BatchBlocked, ReorderBothWaysKeepsEveryElement) {
  for (const Isa isa : usable_isas()) {
    const KernelTable& kernels = kernels_for(isa);
    for (const int64_t n : {1, 5, 16, 17, 250}) {
      for (const int64_t elements : {1, 15, 16, 50, 300}) {
        SCOPED_TRACE(std::string(kernels.name) + " n" + std::to_string(n) + " elements " +
                     std::to_string(elements));
        const Values x = numbers(n * elements, 1);
        Buffer canonical = copy(x), blocked(sample_blocks(n) * kBlock * elements),
               back(n * elements);
        to_blocked(canonical.get(), n, elements, blocked.get(), 2, kernels);
        Buffer expected = block(x, n, 0.0f);
        EXPECT_EQ(Values(blocked.get(), blocked.get() + blocked.size()),
                  Values(expected.get(), expected.get() + expected.size()));
        from_blocked(blocked.get(), n, elements, back.get(), 2, kernels);
        EXPECT_EQ(Values(back.get(), back.get() + back.size()), x);
      }
    }
  }
}

}  // namespace
}  // namespace backends::cpu::batch_blocked
