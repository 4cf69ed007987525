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

inline Values numbers(int64_t count, uint32_t seed) {
  Values values(static_cast<size_t>(count));
  uint32_t state = seed * 2654435761u + 12345u;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return values;
}

// Converts canonical to blocked by the definition of the layout; padding lanes get `padding`.
inline Buffer block(const Values& canonical, int64_t n, float padding = std::nanf("")) {
  const int64_t elements = static_cast<int64_t>(canonical.size()) / n;
  Buffer blocked(sample_blocks(n) * elements * kBlock);
  for (int64_t i = 0; i < blocked.size(); ++i) {
    const int64_t sample = i / (elements * kBlock) * kBlock + i % kBlock;
    const int64_t element = i / kBlock % elements;
    blocked[i] = sample < n ? canonical[static_cast<size_t>(sample * elements + element)] : padding;
  }
  return blocked;
}

inline Values unblock(Buffer& blocked, int64_t n) {
  const int64_t elements = blocked.size() / (sample_blocks(n) * kBlock);
  Values canonical(static_cast<size_t>(n * elements));
  for (int64_t s = 0; s < n; ++s) {
    for (int64_t e = 0; e < elements; ++e) {
      canonical[static_cast<size_t>(s * elements + e)] =
          blocked[(s / kBlock * elements + e) * kBlock + s % kBlock];
    }
  }
  return canonical;
}

// The tolerance is relative to the norm of `expected`.
inline void expect_near(const Values& actual, const Values& expected, const std::string& what,
                 double tolerance = 2e-6) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_TRUE(std::isfinite(actual[i])) << what << ": element " << i << " is " << actual[i];
    difference += std::pow(actual[i] - expected[i], 2.0);
    norm += std::pow(expected[i], 2.0);
  }
  EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm) + 1e-12) << what;
}

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

struct Case {
  ConvShape shape;
  std::string name;
};

inline ConvShape conv(int64_t n, int64_t h, int64_t w, int64_t c, int64_t o, int64_t kh, int64_t kw,
               int64_t pad_top = 0, int64_t pad_left = 0, int64_t stride = 1, int64_t dilation = 1,
               int64_t pad_end = 0) {
  ConvShape s{n, h, w, c, o, kh, kw, 0, 0};
  s.stride_h = s.stride_w = stride;
  s.dilation_h = s.dilation_w = dilation;
  s.pad_top = pad_top;
  s.pad_left = pad_left;
  s.p = (h + pad_top + pad_end - dilation * (kh - 1) - 1) / stride + 1;
  s.q = (w + pad_left + pad_end - dilation * (kw - 1) - 1) / stride + 1;
  return s;
}

inline std::vector<ConvShape> conv_shapes() {
  return {
      conv(5, 12, 12, 1, 20, 3, 3),              // the first one of LeNet, smaller
      conv(17, 13, 13, 20, 50, 5, 5),            // the second one of LeNet
      conv(1, 5, 7, 3, 4, 3, 3, 1, 1, 1, 1, 1),  // one sample, padded
      conv(16, 9, 9, 16, 16, 3, 3, 1, 1, 1, 1, 1),
      conv(20, 9, 8, 7, 11, 3, 3, 1, 1, 2, 1, 1),  // stride 2, odd channels
      conv(3, 11, 11, 2, 3, 3, 3, 2, 2, 1, 2, 2),  // dilated
      conv(3, 11, 10, 2, 3, 3, 2, 2, 0, 2, 2, 1),  // dilated and strided, uneven padding
      conv(2, 6, 6, 8, 1, 1, 1),
      conv(2, 7, 7, 6, 13, 1, 1, 0, 0, 2),  // pixels that no output reads
      conv(4, 6, 6, 5, 9, 5, 5, 2, 2, 1, 1, 2),
      conv(2, 40, 40, 64, 8, 3, 3, 1, 1, 1, 1, 1),  // several strips
      conv(2, 5, 5, 6, 21, 3, 3),  // the last output tile is partial, and shifted back
      conv(250, 4, 4, 3, 5, 2, 2),
      conv(2, 4, 9, 4, 5, 1, 5, 0, 2, 1, 1, 2),
      conv(2, 3, 3, 2, 2, 3, 3, 2, 2, 3, 1, 2),  // a stride larger than the filter
      // Winograd multiplies these position by position, in two passes, and with weights past the
      // caches.
      conv(50, 6, 6, 600, 4, 3, 3, 1, 1, 1, 1, 1),
      conv(50, 6, 5, 4, 600, 3, 3, 1, 1, 1, 1, 1),
      conv(3, 4, 4, 320, 190, 3, 3, 1, 1, 1, 1, 1),
  };
}

inline std::string describe(const KernelTable& k, const ConvShape& s, int threads) {
  return std::string(k.name) + " n" + std::to_string(s.n) + " " + std::to_string(s.h) + "x" +
         std::to_string(s.w) + "x" + std::to_string(s.c) + " -> " + std::to_string(s.o) +
         " filter " + std::to_string(s.kh) + "x" + std::to_string(s.kw) + " stride " +
         std::to_string(s.stride_h) + " dilation " + std::to_string(s.dilation_h) + " threads " +
         std::to_string(threads);
}

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

inline Buffer copy(const Values& values) {
  Buffer buffer(static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), buffer.get());
  return buffer;
}

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
  explicit WeightGradients(const ConvShape& s) : data(s) {
    std::vector<double> sums(data.w.size()), bias_sums(static_cast<size_t>(s.o));
    for_products(
        s, [&](size_t x, size_t w, size_t y) { sums[w] += double(data.x[x]) * double(data.y[y]); });
    for (size_t i = 0; i < data.y.size(); ++i) bias_sums[i % bias_sums.size()] += data.y[i];
    weights.assign(sums.begin(), sums.end());
    bias.assign(bias_sums.begin(), bias_sums.end());
  }
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

}  // namespace backends::cpu::batch_blocked

#endif  // TESTS_BACKENDS_CPU_BATCH_BLOCKED_SUPPORT_H_
