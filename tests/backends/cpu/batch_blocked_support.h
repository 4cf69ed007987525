// Plain loops, shapes and buffers for the tests of the batch-blocked kernels.
#ifndef TESTS_BACKENDS_CPU_BATCH_BLOCKED_SUPPORT_H_
#define TESTS_BACKENDS_CPU_BATCH_BLOCKED_SUPPORT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/batch_blocked/kernel_table.h"
#include "backends/cpu/batch_blocked/reorder.h"
#include "backends/cpu/batch_blocked/shapes.h"

namespace backends::cpu::batch_blocked {
// 64-byte aligned floats, filled with NaN, which reveals elements that were not written.
class Buffer {
 public:
  explicit Buffer(int64_t count)
      : count_(count),
        data_(static_cast<float*>(std::aligned_alloc(64, (count * 4 + 127) / 64 * 64)), std::free) {
    for (int64_t i = 0; i < count; ++i) data_.get()[i] = std::numeric_limits<float>::quiet_NaN();
  }
  float* get() { return data_.get(); }
  int64_t size() const { return count_; }
  float& operator[](int64_t i) { return data_.get()[i]; }

 private:
  int64_t count_;
  std::unique_ptr<float, decltype(&std::free)> data_;
};

using Values = std::vector<float>;

Values numbers(int64_t count, uint32_t seed);

// Converts canonical to blocked by the definition of the layout; padding lanes get `padding`.
Buffer block(const Values& canonical, int64_t n, float padding = std::nanf(""));

Values unblock(Buffer& blocked, int64_t n);

// The tolerance is relative to the norm of `expected`.
void expect_near(const Values& actual, const Values& expected, const std::string& what,
                 double tolerance = 2e-6);

// Calls visit(x index, w index, y index) for every product of a convolution.
template <typename Visit>
void for_products(const ConvShape& s, Visit visit) {
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t p = 0; p < s.p; ++p)
      for (int64_t q = 0; q < s.q; ++q)
        for (int64_t i = 0; i < s.kh; ++i)
          for (int64_t j = 0; j < s.kw; ++j) {
            const int64_t h = p * s.stride_h - s.pad_top + i * s.dilation_h;
            const int64_t w = q * s.stride_w - s.pad_left + j * s.dilation_w;
            if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
            for (int64_t o = 0; o < s.o; ++o)
              for (int64_t c = 0; c < s.c; ++c)
                visit(static_cast<size_t>(((n * s.h + h) * s.w + w) * s.c + c),
                      static_cast<size_t>(((o * s.kh + i) * s.kw + j) * s.c + c),
                      static_cast<size_t>(((n * s.p + p) * s.q + q) * s.o + o));
          }
}

ConvShape conv(int64_t n, int64_t h, int64_t w, int64_t c, int64_t o, int64_t kh, int64_t kw,
               int64_t pad_top = 0, int64_t pad_left = 0, int64_t stride = 1, int64_t dilation = 1,
               int64_t pad_end = 0);

std::vector<ConvShape> conv_shapes();

std::string describe(const KernelTable& k, const ConvShape& s, int threads);

// prepare(shape) computes the expected result once, and returns a function that checks a kernel
// against it.
template <typename Prepare>
void for_all(Prepare prepare) {
  for (const ConvShape& shape : conv_shapes()) {
    const auto check = prepare(shape);
    for (const Isa isa : usable_isas()) {
      const KernelTable& kernels = kernels_for(isa);
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(describe(kernels, shape, threads));
        check(kernels, threads);
      }
    }
  }
}

struct Data {
  Values x, w, y;
  explicit Data(const ConvShape& s)
      : x(numbers(s.n * s.h * s.w * s.c, 1)),
        w(numbers(s.o * s.kh * s.kw * s.c, 2)),
        y(numbers(s.n * s.p * s.q * s.o, 3)) {}
};

Buffer copy(const Values& values);

template <typename Op>
Values run(const Op& op, Buffer& in, Buffer& w, int64_t out_elements, int64_t n,
           const PostOps& post) {
  Buffer out(sample_blocks(n) * kBlock * out_elements);
  Buffer workspace(static_cast<int64_t>(op.workspace_bytes() / 4));
  op.run(in.get(), w.get(), out.get(), workspace.get(), post);
  return unblock(out, n);
}

struct WeightGradients {
  Data data;
  Values weights, bias;
  explicit WeightGradients(const ConvShape& s);
};

template <typename Op>
void check_weight_gradient(const Op& op, const ConvShape& s, const WeightGradients& expected,
                           double tolerance) {
  Buffer x = block(expected.data.x, s.n), dy = block(expected.data.y, s.n);
  for (const bool with_bias : {true, false}) {
    Buffer dw(static_cast<int64_t>(expected.weights.size())), db(s.o);
    Buffer workspace(static_cast<int64_t>(op.workspace_bytes() / 4));
    op.run(x.get(), dy.get(), dw.get(), with_bias ? db.get() : nullptr, workspace.get());
    expect_near(Values(dw.get(), dw.get() + dw.size()), expected.weights, "dw", tolerance);
    if (!with_bias) continue;
    expect_near(Values(db.get(), db.get() + s.o), expected.bias, "db");
  }
}

}  // namespace backends::cpu::batch_blocked

#endif  // TESTS_BACKENDS_CPU_BATCH_BLOCKED_SUPPORT_H_
