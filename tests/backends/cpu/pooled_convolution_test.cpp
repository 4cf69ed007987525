// Compares conv2d_pool2d and its weight gradient in the batch-blocked layout with plain loops, for
// every instruction set that this machine has.
#include "backends/cpu/batch_blocked/pooled_convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backends/cpu/batch_blocked/pooled_gradient.h"
#include "tests/backends/cpu/batch_blocked_support.h"

namespace backends::cpu::batch_blocked {
namespace {

// These are the results of plain loops.
struct Expected {
  Values y, dw, db;
};

class Case {
 public:
  explicit Case(const PooledShape& shape)
      : s(shape),
        x(numbers(s.conv.n * s.conv.h * s.conv.w * s.conv.c, 1)),
        w(numbers(s.conv.o * s.conv.kh * s.conv.kw * s.conv.c, 2)),
        b(numbers(s.conv.o, 3)),
        dy(numbers(s.conv.n * s.rows() * s.columns() * s.conv.o, 4)) {}

  Expected expected() const {
    std::vector<double> image = convolved(), gradient(image.size());
    Expected e{Values(dy.size()), Values(w.size()), Values(b.size())};
    for (size_t i = 0; i < dy.size(); ++i) {
      const std::vector<size_t> window = window_of(i);
      const double factor = 1.0 / static_cast<double>(window.size());
      size_t winner = window[0];
      double sum = 0;
      for (size_t at : window) {
        if (image[at] > image[winner]) winner = at;
        sum += image[at] * factor;
      }
      e.y[i] = static_cast<float>(s.average ? sum : image[winner]);
      for (size_t at : window) {
        if (s.relu && image[at] <= 0) continue;
        gradient[at] = s.average ? dy[i] * factor : at == winner ? dy[i] : 0.0;
      }
    }
    std::vector<double> dw(w.size()), db(b.size());
    for_products(s.conv, [&](size_t xi, size_t wi, size_t yi) { dw[wi] += x[xi] * gradient[yi]; });
    for (size_t i = 0; i < gradient.size(); ++i) db[i % db.size()] += gradient[i];
    e.dw.assign(dw.begin(), dw.end());
    e.db.assign(db.begin(), db.end());
    return e;
  }

  const PooledShape s;
  const Values x, w, b, dy;

 private:
  std::vector<double> convolved() const {
    const ConvShape& c = s.conv;
    std::vector<double> image(static_cast<size_t>(c.n * c.p * c.q * c.o));
    for_products(c, [&](size_t xi, size_t wi, size_t yi) { image[yi] += x[xi] * w[wi]; });
    for (size_t i = 0; i < image.size(); ++i) {
      image[i] += b[i % b.size()];
      if (s.relu && image[i] <= 0) image[i] = 0;
    }
    return image;
  }
  // The elements of the image under element i of the result, in the order of the window.
  std::vector<size_t> window_of(size_t i) const {
    const auto o = static_cast<int64_t>(i) % s.conv.o, pixel = static_cast<int64_t>(i) / s.conv.o;
    const int64_t q = pixel % s.columns(), p = pixel / s.columns() % s.rows();
    const int64_t n = pixel / s.columns() / s.rows();
    std::vector<size_t> window;
    for (int64_t h = p * s.window_h; h < (p + 1) * s.window_h; ++h) {
      for (int64_t v = q * s.window_w; v < (q + 1) * s.window_w; ++v) {
        window.push_back(static_cast<size_t>(((n * s.conv.p + h) * s.conv.q + v) * s.conv.o + o));
      }
    }
    return window;
  }
};

std::vector<PooledShape> shapes() {
  const std::vector<ConvShape> convolutions = {
      conv(32, 28, 28, 1, 20, 3, 3),      // LeNet
      conv(17, 9, 8, 3, 6, 5, 5),         // one sample in the second block; a column is left out
      conv(40, 7, 11, 2, 7, 3, 3, 1, 1),  // padding
      conv(16, 15, 13, 3, 4, 3, 2, 1, 0, 2),  // a stride
      conv(9, 13, 13, 1, 3, 3, 3, 2, 2, 1, 2),
      conv(33, 40, 64, 3, 12, 3, 3, 1, 1, 1, 1, 1),  // several strips
  };
  std::vector<PooledShape> result;
  for (const ConvShape& c : convolutions) {
    for (const bool average : {true, false}) {
      result.push_back({c, 2, 2, average, true});
      result.push_back({c, 3, 2, average, false});
    }
  }
  return result;
}

void check(const Case& c, const Expected& expected, const KernelTable& kernels, int threads) {
  const ConvShape& conv = c.s.conv;
  Buffer x = block(c.x, conv.n), w = copy(c.w), b = copy(c.b), dy = block(c.dy, conv.n);
  Buffer y(dy.size()), dw(w.size()), db(b.size());
  std::vector<uint16_t> saved(c.s.saved_bytes() / 2 + 1, 0xaaaa);
  uint16_t* const passes = c.s.saved_bytes() > 0 ? saved.data() : nullptr;
  const PooledConvolution forward(c.s, threads, kernels);
  Buffer workspace(static_cast<int64_t>(forward.workspace_bytes() / 4));
  forward.run(x.get(), w.get(), b.get(), y.get(), passes, workspace.get());
  expect_near(unblock(y, conv.n), expected.y, "y");
  EXPECT_EQ(saved.back(), 0xaaaa) << "written behind the saved data";
  const PooledGradient gradient(c.s, threads, kernels);
  Buffer scratch(static_cast<int64_t>(gradient.workspace_bytes() / 4));
  gradient.run(x.get(), dy.get(), passes, dw.get(), db.get(), scratch.get());
  expect_near(Values(dw.get(), dw.get() + dw.size()), expected.dw, "dw");
  expect_near(Values(db.get(), db.get() + db.size()), expected.db, "db");
}

TEST(PooledConvolution, IsTheSameAsOneOperationAfterTheOther) {
  for (const PooledShape& shape : shapes()) {
    const Case c(shape);
    const Expected expected = c.expected();
    for (const Isa isa : usable_isas()) {
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(describe(kernels_for(isa), shape.conv, threads) +
                     (shape.average ? " average" : " max") + (shape.relu ? " relu" : ""));
        check(c, expected, kernels_for(isa), threads);
      }
    }
  }
}

// The first of equal elements wins, and the last of several NaN; an element that is not positive
// passes nothing through relu, and a NaN does.
TEST(PooledConvolution, TheMaximumFollowsTheRuleOfMaxPooling) {
  const float nan = std::nanf("");
  const ConvShape conv{1, 2, 8, 1, 1, 1, 1, 2, 8};
  const Values x = {1, 1, -1, -2, nan, 2,   0, 0,  //
                    1, 1, -1, -3, 3,   nan, 0, 0};
  for (const Isa isa : usable_isas()) {
    const KernelTable& kernels = kernels_for(isa);
    SCOPED_TRACE(kernels.name);
    const PooledShape s{conv, 2, 2, false, true};
    Buffer blocked = block(x, 1), w = copy({1}), b = copy({0}), y(4 * kBlock);
    std::vector<uint16_t> saved(s.saved_bytes() / 2);
    const PooledConvolution op(s, 1, kernels);
    Buffer workspace(static_cast<int64_t>(op.workspace_bytes() / 4));
    op.run(blocked.get(), w.get(), b.get(), y.get(), saved.data(), workspace.get());
    const Values result = unblock(y, 1);
    EXPECT_EQ(result[0], 1);
    EXPECT_EQ(result[1], 0);
    EXPECT_TRUE(std::isnan(result[2]));
    EXPECT_EQ(result[3], 0);
    std::vector<int> passes;
    for (uint16_t bits : saved) passes.push_back(bits & 1);
    EXPECT_EQ(passes, (std::vector<int>{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}));
  }
}

TEST(PooledConvolution, TheGradientHasTheSameBitsEveryTime) {
  const Case c({conv(64, 12, 12, 1, 5, 3, 3), 2, 2, true, false});
  Buffer x = block(c.x, 64), dy = block(c.dy, 64);
  std::vector<Values> results;
  for (int i = 0; i < 3; ++i) {
    const PooledGradient op(c.s, 3, kernels_for(widest_isa()));
    Buffer dw(static_cast<int64_t>(c.w.size())), db(5);
    Buffer workspace(static_cast<int64_t>(op.workspace_bytes() / 4));
    op.run(x.get(), dy.get(), nullptr, dw.get(), db.get(), workspace.get());
    results.emplace_back(dw.get(), dw.get() + dw.size());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace backends::cpu::batch_blocked
