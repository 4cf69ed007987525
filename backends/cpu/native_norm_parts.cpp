// Batch normalisation whose statistics are computed in parts and merged, in the canonical layout.
// Sums are made over chunks of a fixed number of pixels and added in the order of the chunks, so
// that the result has the same bits for any number of threads.
#include <algorithm>
#include <cmath>

#include "backends/cpu/native.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/post_chain.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

int64_t parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

// x [N,...,C] seen as [samples][positions][channels]. A pixel is one position of one sample.
struct Pixels {
  int64_t samples, positions, channels;

  Pixels(const Operation& op, const rt_tensor_desc& x)
      : samples(x.dims[0]), positions(1), channels(last_dim(x)) {
    if (x.rank < 2 || channels < 1)
      op.fail("x is " + rt::sdk::to_string(x) + "; expected [N,...,C] with C >= 1");
    for (int32_t i = 1; i + 1 < x.rank; ++i) positions *= x.dims[i];
  }
  int64_t count() const { return samples * positions; }
  // A piece (in pixels) fits the first-level cache; one thread sums up a chunk of several pieces.
  int64_t piece() const { return std::clamp<int64_t>(4096 / channels, 8, kernels::kMostPixels); }
  int64_t chunk() const { return 8 * piece(); }

  // The number of doubles for the sums: two arrays over the channels for each chunk. The first
  // chunk's arrays receive the result.
  int64_t sums_size() const { return 2 * channels * std::max<int64_t>(1, parts(count(), chunk())); }
  // Calls body(first pixel, number of pixels, pixels of the same chunk before them, the chunk's
  // sums) for each piece of the first `count` pixels. Returns the number of chunks.
  template <typename Body>
  int64_t sum_up(int threads, int64_t count, double* sums, Body&& body) const {
    const int64_t used = parts(count, chunk());
    std::fill_n(sums, 2 * channels, 0.0);
    parallel_for(threads, used, 2, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        double* own = sums + 2 * channels * k;
        std::fill_n(own, 2 * channels, 0.0);
        const int64_t first = k * chunk(), last = std::min(count, first + chunk());
        for (int64_t at = first; at < last; at += piece())
          body(at, std::min(piece(), last - at), at - first, own);
      }
    });
    return used;
  }

  // Calls body(first pixel, number of pixels) for pieces that together cover all pixels.
  template <typename Body>
  void for_pieces(int threads, Body&& body) const {
    const int64_t grain = kElementGrain / (piece() * channels) + 1;
    parallel_for(threads, parts(count(), piece()), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        body(i * piece(), std::min(piece(), count() - i * piece()));
    });
  }
};

void check(const Operation& op, const rt_tensor_desc& tensor, const char* what,
           std::initializer_list<int64_t> dims) {
  if (tensor.rank == static_cast<int32_t>(dims.size()) &&
      std::equal(dims.begin(), dims.end(), tensor.dims))
    return;
  std::string text;
  for (const int64_t d : dims) text += (text.empty() ? "" : ",") + std::to_string(d);
  op.fail(std::string(what) + " is " + rt::sdk::to_string(tensor) + "; expected [" + text + "]");
}

bool is_real(float weight) { return weight > 0; }

// ---- statistics

// Writes the numbers of the rows with positive weight to `rows` and returns how many there are.
int64_t list_real_rows(const float* weight, int64_t samples, int64_t* rows) {
  int64_t real = 0;
  for (int64_t i = 0; i < samples; ++i) {
    if (is_real(weight[i])) rows[real++] = i;
  }
  return real;
}

std::unique_ptr<Plan> make_statistics(const NativeContext& context, const Operation& op) {
  expect_counts(op, 2, 1);
  expect_float(op);
  const Pixels p(op, op.input(0));
  check(op, op.input(1), "weight", {p.samples});
  check(op, op.output(0), "part", {1, 2 * p.channels + 1});
  const int threads = context.engine.threads();
  auto plan = make_plan(
      context, "native:batch_norm_statistics",
      [=, &kernel = context.engine.kernels()](const rt_launch& l) {
        auto* sums = static_cast<double*>(l.workspace);
        auto* rows = reinterpret_cast<int64_t*>(sums + p.sums_size());
        const float* x = input<float>(l, 0);
        const int64_t real = list_real_rows(input<float>(l, 1), p.samples, rows);
        const int64_t count = real * p.positions;
        // Consecutive rows count as one long row.
        const bool dense = real > 0 && rows[real - 1] - rows[0] == real - 1;
        const int64_t row_pixels = dense ? count : p.positions;
        if (dense) x += rows[0] * p.positions * p.channels, rows[0] = 0;
        const int64_t used = p.sum_up(
            threads, count, sums, [&](int64_t first, int64_t pixels, int64_t before, double* sum) {
              kernel.add_statistics(x, rows, row_pixels, first, pixels, p.channels, before, sum,
                                    sum + p.channels);
            });
        for (int64_t k = 1; k < used; ++k) {
          const int64_t before = k * p.chunk(), more = std::min(p.chunk(), count - before);
          kernel.merge_statistics(sums + 2 * p.channels * k, static_cast<double>(more), p.channels,
                                  static_cast<double>(before), sums);
        }
        std::copy_n(sums, 2 * p.channels, output<float>(l, 0));
        output<float>(l, 0)[2 * p.channels] = static_cast<float>(count);
      });
  plan->edit().workspace_bytes = static_cast<uint64_t>(p.sums_size() + p.samples) * sizeof(double);
  return plan;
}

// ---- merge

// running = (1 - momentum) running + momentum value
void update_running(const float* before, const double* value, double momentum, int64_t channels,
                    float* after) {
  for (int64_t c = 0; c < channels; ++c)
    after[c] = static_cast<float>((1.0 - momentum) * before[c] + momentum * value[c]);
}

void merge_parts(const kernels::Table& kernel, const rt_launch& l, int64_t groups, int64_t channels,
                 double momentum) {
  auto* total = static_cast<double*>(l.workspace);
  double* row = total + 2 * channels;
  std::fill_n(total, 2 * channels, 0.0);
  double n = 0;
  const float* part = input<float>(l, 0);
  for (int64_t g = 0; g < groups; ++g, part += 2 * channels + 1) {
    const double count = part[2 * channels];
    if (count == 0) continue;
    std::copy_n(part, 2 * channels, row);
    kernel.merge_statistics(row, count, channels, n, total);
    n += count;
  }
  double* variance = total + channels;
  for (int64_t c = 0; c < channels; ++c) variance[c] /= std::max(n, 1.0);
  float* moments = output<float>(l, 0);
  std::copy_n(total, 2 * channels, moments);
  moments[2 * channels] = static_cast<float>(n);
  const double update = n > 0 ? momentum : 0.0;  // a batch without samples changes nothing
  update_running(input<float>(l, 1), total, update, channels, output<float>(l, 1));
  const double unbias = n > 1 ? n / (n - 1) : 1.0;
  for (int64_t c = 0; c < channels; ++c) variance[c] *= unbias;
  update_running(input<float>(l, 2), variance, update, channels, output<float>(l, 2));
}

std::unique_ptr<Plan> make_merge(const NativeContext& context, const Operation& op) {
  expect_counts(op, 3, 3);
  expect_float(op);
  const rt_tensor_desc& parts = op.input(0);
  const int64_t width = last_dim(parts), channels = width / 2;
  if (parts.rank != 2 || width < 3 || width % 2 == 0)
    op.fail("parts is " + rt::sdk::to_string(parts) + "; expected [G,2C+1]");
  for (uint32_t i : {1u, 2u}) {
    check(op, op.input(i), "a running statistic", {channels});
    check(op, op.output(i), "a running statistic", {channels});
  }
  check(op, op.output(0), "moments", {width});
  const int64_t groups = parts.dims[0];
  const double momentum = op.number(RT_ATTR_MOMENTUM, 0.1);
  auto plan = make_plan(context, "native:batch_norm_merge",
                        [=, &kernel = context.engine.kernels()](const rt_launch& l) {
                          merge_parts(kernel, l, groups, channels, momentum);
                        });
  plan->edit().workspace_bytes = static_cast<uint64_t>(4 * channels) * sizeof(double);
  plan->edit().in_place = {0, 1u << 1, 1u << 2};
  return plan;
}

// ---- application of the merged moments

double inverse_deviation(const float* moments, int64_t channels, int64_t c, double epsilon) {
  return 1.0 / std::sqrt(static_cast<double>(moments[channels + c]) + epsilon);
}

std::unique_ptr<Plan> make_apply(const NativeContext& context, const Operation& op) {
  expect_counts(op, 4, 1);
  expect_float(op);
  const Pixels p(op, op.input(0));
  expect_same_dims(op, op.input(0), op.output(0));
  check(op, op.input(1), "gamma", {p.channels});
  check(op, op.input(2), "beta", {p.channels});
  check(op, op.input(3), "moments", {2 * p.channels + 1});
  const double epsilon = op.number(RT_ATTR_EPSILON);
  const int threads = context.engine.threads();
  const PostChain chain(op, context.engine.channel_order(op.output(0)));
  auto plan =
      make_plan(context, "native:batch_norm_apply",
                [=, &kernel = context.engine.kernels()](const rt_launch& l) {
                  const float *x = input<float>(l, 0), *moments = input<float>(l, 3);
                  float *y = output<float>(l, 0), *factor = static_cast<float*>(l.workspace);
                  for (int64_t c = 0; c < p.channels; ++c) {
                    factor[c] = static_cast<float>(
                        input<float>(l, 1)[c] * inverse_deviation(moments, p.channels, c, epsilon));
                  }
                  p.for_pieces(threads, [&](int64_t first, int64_t pixels) {
                    const int64_t at = first * p.channels;
                    kernel.normalise(x + at, p.channels, pixels, p.channels, moments, factor,
                                     input<float>(l, 2), y + at);
                    chain.apply(kernel, y + at, at, pixels * p.channels, l.inputs);
                  });
                });
  plan->edit().workspace_bytes = static_cast<uint64_t>(p.channels) * sizeof(float);
  plan->edit().in_place[0] = 1u << 0;
  return plan;
}

std::unique_ptr<Plan> make_backward_statistics(const NativeContext& context, const Operation& op) {
  expect_counts(op, 3, 1);
  expect_float(op);
  const Pixels p(op, op.input(1));
  expect_same_dims(op, op.input(0), op.input(1));
  check(op, op.input(2), "moments", {2 * p.channels + 1});
  check(op, op.output(0), "sums", {1, 2 * p.channels});
  const double epsilon = op.number(RT_ATTR_EPSILON);
  const int threads = context.engine.threads();
  auto plan = make_plan(
      context, "native:batch_norm_backward_statistics",
      [=, &kernel = context.engine.kernels()](const rt_launch& l) {
        const float *dy = input<float>(l, 0), *x = input<float>(l, 1),
                    *moments = input<float>(l, 2);
        auto* sums = static_cast<double*>(l.workspace);
        const int64_t used = p.sum_up(
            threads, p.count(), sums, [&](int64_t first, int64_t pixels, int64_t, double* sum) {
              const int64_t at = first * p.channels;
              kernel.add_gradient_sums(dy + at, x + at, p.channels, pixels, p.channels, moments,
                                       sum, sum + p.channels);
            });
        for (int64_t k = 1; k < used; ++k) {
          for (int64_t c = 0; c < 2 * p.channels; ++c) sums[c] += sums[2 * p.channels * k + c];
        }
        float* result = output<float>(l, 0);
        for (int64_t c = 0; c < p.channels; ++c) {
          // A sum over no rows is 0, also if a variance is no number that could divide it.
          const double factor =
              p.count() == 0 ? 0 : inverse_deviation(moments, p.channels, c, epsilon);
          result[c] = static_cast<float>(sums[c]);
          result[p.channels + c] = static_cast<float>(sums[p.channels + c] * factor);
        }
      });
  plan->edit().workspace_bytes = static_cast<uint64_t>(p.sums_size()) * sizeof(double);
  return plan;
}

// Cuts `pixels` pixels from `first` on into runs of pixels that are all of real rows or all of
// padding rows, and calls body(first pixel, number of pixels, whether they are real) for each.
template <typename Body>
void each_run(const Pixels& p, const float* weight, int64_t first, int64_t pixels, Body&& body) {
  const int64_t last = first + pixels;
  for (int64_t at = first, row = first / p.positions; at < last;) {
    const bool real = is_real(weight[row]);
    int64_t end = (++row) * p.positions;
    while (end < last && is_real(weight[row]) == real) end = (++row) * p.positions;
    end = std::min(end, last);
    body(at, end - at, real);
    at = end;
  }
}

std::unique_ptr<Plan> make_backward_apply(const NativeContext& context, const Operation& op) {
  expect_counts(op, 6, 1);
  expect_float(op);
  const Pixels p(op, op.input(1));
  expect_same_dims(op, op.input(0), op.output(0));
  expect_same_dims(op, op.input(1), op.output(0));
  check(op, op.input(2), "gamma", {p.channels});
  check(op, op.input(3), "moments", {2 * p.channels + 1});
  check(op, op.input(4), "sums", {2 * p.channels});
  check(op, op.input(5), "weight", {p.samples});
  const double epsilon = op.number(RT_ATTR_EPSILON);
  const int threads = context.engine.threads();
  auto plan =
      make_plan(context, "native:batch_norm_backward_apply",
                [=, &kernel = context.engine.kernels()](const rt_launch& l) {
                  const float *dy = input<float>(l, 0), *x = input<float>(l, 1),
                              *moments = input<float>(l, 3);
                  const float *sums = input<float>(l, 4), *weight = input<float>(l, 5);
                  float *dx = output<float>(l, 0), *factor = static_cast<float*>(l.workspace);
                  float *offset = factor + p.channels, *slope = offset + p.channels;
                  const double n = moments[2 * p.channels], share = n > 0 ? 1 / n : 0;
                  for (int64_t c = 0; c < p.channels; ++c) {
                    const double inverse = inverse_deviation(moments, p.channels, c, epsilon);
                    factor[c] = static_cast<float>(input<float>(l, 2)[c] * inverse);
                    offset[c] = static_cast<float>(sums[c] * share);
                    slope[c] = static_cast<float>(sums[p.channels + c] * share * inverse);
                  }
                  p.for_pieces(threads, [&](int64_t first, int64_t pixels) {
                    each_run(p, weight, first, pixels, [&](int64_t begin, int64_t run, bool real) {
                      const int64_t at = begin * p.channels;
                      if (real && n > 0) {
                        kernel.normalise_backward(dy + at, x + at, p.channels, run, p.channels,
                                                  moments, factor, offset, slope, dx + at);
                      } else {
                        std::fill_n(dx + at, run * p.channels, 0.0f);
                      }
                    });
                  });
                });
  plan->edit().workspace_bytes = static_cast<uint64_t>(3 * p.channels) * sizeof(float);
  plan->edit().in_place[0] = 0x3;
  return plan;
}

constexpr NativeKernel kKernels[] = {
    {RT_OP_BATCH_NORM_STATISTICS, LayoutRule::kCanonical, make_statistics},
    {RT_OP_BATCH_NORM_MERGE, LayoutRule::kCanonical, make_merge},
    {RT_OP_BATCH_NORM_APPLY, LayoutRule::kCanonical, make_apply, NativeKernel::kFuses},
    {RT_OP_BATCH_NORM_BACKWARD_STATISTICS, LayoutRule::kCanonical, make_backward_statistics},
    {RT_OP_BATCH_NORM_BACKWARD_APPLY, LayoutRule::kCanonical, make_backward_apply},
};

}  // namespace

KernelTable norm_parts_kernels() { return {kKernels, std::size(kKernels)}; }

}  // namespace backends::cpu
