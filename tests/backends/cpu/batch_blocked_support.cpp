// Blocks and unblocks tensors, and computes convolutions plainly, for tests of the batch-blocked
// kernels.
#include "tests/backends/cpu/batch_blocked_support.h"

#include <cmath>

namespace backends::cpu::batch_blocked {

Values numbers(int64_t count, uint32_t seed) {
  Values values(static_cast<size_t>(count));
  uint32_t state = seed * 2654435761u + 12345u;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return values;
}

Buffer block(const Values& canonical, int64_t n, float padding) {
  const int64_t elements = static_cast<int64_t>(canonical.size()) / n;
  Buffer blocked(sample_blocks(n) * elements * kBlock);
  for (int64_t i = 0; i < blocked.size(); ++i) {
    const int64_t sample = i / (elements * kBlock) * kBlock + i % kBlock;
    const int64_t element = i / kBlock % elements;
    blocked[i] = sample < n ? canonical[static_cast<size_t>(sample * elements + element)] : padding;
  }
  return blocked;
}

Values unblock(Buffer& blocked, int64_t n) {
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

void expect_near(const Values& actual, const Values& expected, const std::string& what,
                 double tolerance) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_TRUE(std::isfinite(actual[i])) << what << ": element " << i << " is " << actual[i];
    difference += std::pow(actual[i] - expected[i], 2.0);
    norm += std::pow(expected[i], 2.0);
  }
  EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm) + 1e-12) << what;
}

ConvShape conv(int64_t n, int64_t h, int64_t w, int64_t c, int64_t o, int64_t kh, int64_t kw,
               int64_t pad_top, int64_t pad_left, int64_t stride, int64_t dilation,
               int64_t pad_end) {
  ConvShape s{n, h, w, c, o, kh, kw, 0, 0};
  s.stride_h = s.stride_w = stride;
  s.dilation_h = s.dilation_w = dilation;
  s.pad_top = pad_top;
  s.pad_left = pad_left;
  s.p = (h + pad_top + pad_end - dilation * (kh - 1) - 1) / stride + 1;
  s.q = (w + pad_left + pad_end - dilation * (kw - 1) - 1) / stride + 1;
  return s;
}

std::vector<ConvShape> conv_shapes() {
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

std::string describe(const KernelTable& k, const ConvShape& s, int threads) {
  return std::string(k.name) + " n" + std::to_string(s.n) + " " + std::to_string(s.h) + "x" +
         std::to_string(s.w) + "x" + std::to_string(s.c) + " -> " + std::to_string(s.o) +
         " filter " + std::to_string(s.kh) + "x" + std::to_string(s.kw) + " stride " +
         std::to_string(s.stride_h) + " dilation " + std::to_string(s.dilation_h) + " threads " +
         std::to_string(threads);
}

Buffer copy(const Values& values) {
  Buffer buffer(static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), buffer.get());
  return buffer;
}

WeightGradients::WeightGradients(const ConvShape& s) : data(s) {
  std::vector<double> sums(data.w.size()), bias_sums(static_cast<size_t>(s.o));
  for_products(
      s, [&](size_t x, size_t w, size_t y) { sums[w] += double(data.x[x]) * double(data.y[y]); });
  for (size_t i = 0; i < data.y.size(); ++i) bias_sums[i % bias_sums.size()] += data.y[i];
  weights.assign(sums.begin(), sums.end());
  bias.assign(bias_sums.begin(), bias_sums.end());
}

}  // namespace backends::cpu::batch_blocked
