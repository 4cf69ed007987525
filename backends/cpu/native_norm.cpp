// Batch normalisation. It works in every image layout, and in the batch-blocked one if no lane is
// without a sample. Forward and backward pass over memory twice each, post-operations included.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/cpu/batch_blocked/plans.h"
#include "backends/cpu/bfloat16/operand.h"
#include "backends/cpu/native.h"
#include "backends/cpu/norm_operands.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/post_chain.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

constexpr int64_t kLongPiece = 1 << 17;  // floats, half a megabyte

// The image cut into pieces of pixels that fit the first-level cache. NHWC counts as one image with
// a single row of pixels. In the batch-blocked layout the kernels see every lane of a channel as a
// channel of its own, whose sums are merged afterwards.
struct Pieces {
  ImageView view;
  int64_t lanes = 1;
  int64_t image_pixels, piece_pixels, per_image;
  bool narrow;  // the image is in bfloat16

  Pieces(const NativeContext& context, const Operation& op, const rt_tensor_desc& image)
      : narrow(image.dtype == RT_BFLOAT16) {
    if (image.layout == batch_blocked::kLayout) {
      lanes = batch_blocked::kBlock;
      const int64_t* d = image.dims;
      view = {1, 1, d[0] / lanes * d[1] * d[2], d[3] * lanes, d[3] * lanes, 1};
    } else {
      view = context.view(op, image);
      const ImageView& v = view;
      if (v.blocks == 1 && v.block == v.c) view = {1, 1, v.n * v.h * v.w, v.c, v.c, 1};
    }
    image_pixels = view.h * view.w;
    piece_pixels =
        std::clamp<int64_t>(4096 / std::max<int64_t>(view.block, 1), 8, kernels::kMostPixels);
    per_image = (image_pixels + piece_pixels - 1) / piece_pixels;
  }
  int64_t count() const { return view.n * per_image; }
  // Floats of a buffer for one piece.
  int64_t buffer() const { return narrow ? piece_pixels * view.block + 16 : 0; }
  int64_t pixels() const { return view.n * image_pixels * lanes; }
  int64_t channels() const { return view.blocks * view.block; }  // padding included
  // Longer pieces, which fit the second-level cache, if that leaves several for each thread:
  // merging the statistics of a piece takes as long as reading several pixels.
  Pieces longer(int threads) const {
    Pieces result = *this;
    result.piece_pixels = std::max(
        piece_pixels, std::min({int64_t{kernels::kMostPixels}, image_pixels / (2 * threads),
                                kLongPiece / std::max<int64_t>(view.block, 1)}));
    result.per_image = (image_pixels + result.piece_pixels - 1) / result.piece_pixels;
    return result;
  }
  int64_t grain() const { return kElementGrain / (piece_pixels * channels() + 1) + 1; }

  // Calls body(first channel, offset, pixels) for every block of channels of piece `index`.
  template <typename Body>
  void each_block(int64_t index, Body&& body) const {
    const int64_t n = index / per_image, first = index % per_image * piece_pixels;
    const int64_t length = std::min(piece_pixels, image_pixels - first);
    for (int64_t b = 0; b < view.blocks; ++b) {
      body(b * view.block, view.offset(n, b, first), length);
    }
  }
};

// A mean as the sum of two floats. Rounded to one float, the mean of numbers that are far from zero
// and close together is wrong by a large fraction of their deviation.
struct TwoFloats {
  float near, rest;
  explicit TwoFloats(double value)
      : near(static_cast<float>(value)), rest(static_cast<float>(value - near)) {}
};

// The workspace: per thread two arrays of double over the channels and a count of pixels, then four
// arrays of float over the channels, then per thread two buffers of float for pieces in bfloat16.
struct Scratch {
  int threads;
  int64_t channels;
  int64_t buffer_floats;
  char* base = nullptr;

  int64_t row() const { return 2 * channels + 8; }
  double* first(int part) const { return reinterpret_cast<double*>(base) + part * row(); }
  double* second(int part) const { return first(part) + channels; }
  double& pixels(int part) const { return first(part)[2 * channels]; }
  float* vector(int i) const {
    return reinterpret_cast<float*>(first(threads)) + i * (channels + 16);
  }
  float* buffer(int part, int i) const { return vector(4) + (2 * part + i) * buffer_floats; }
  uint64_t bytes() const {
    return static_cast<uint64_t>(threads * row()) * sizeof(double) +
           static_cast<uint64_t>(4 * (channels + 16) + 2 * threads * buffer_floats) * sizeof(float);
  }
  // Gives every lane the value of its channel in vector(i), whose first elements are set, one for
  // each channel.
  void spread(int i, int64_t lanes) const {
    if (lanes == 1) return;
    float* v = vector(i);
    for (int64_t c = channels / lanes; c-- > 0;) std::fill_n(v + c * lanes, lanes, v[c]);
  }
  Scratch at(void* workspace) const {
    return {threads, channels, buffer_floats, static_cast<char*>(workspace)};
  }
  void clear() const {
    std::fill(first(0), first(threads), 0.0);
    std::fill(vector(0), vector(4), 0.0f);  // padded channels stay zero
  }
};

// Merges the means and the sums of squared differences of the lanes of each channel, which have
// seen the same number of pixels.
void merge_lanes(const Scratch& s, int64_t lanes) {
  if (lanes == 1) return;
  const auto count = static_cast<double>(lanes);
  for (int64_t c = 0; c < s.channels / lanes; ++c) {
    const double *means = s.first(0) + c * lanes, *squares = s.second(0) + c * lanes;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < lanes; ++i) mean += means[i] / count;
    for (int64_t i = 0; i < lanes; ++i) {
      square += squares[i] + s.pixels(0) * (means[i] - mean) * (means[i] - mean);
    }
    s.first(0)[c] = mean;
    s.second(0)[c] = square;
  }
}

// Writes the mean and the biased variance of every channel to first(0) and second(0).
void batch_statistics(const kernels::Table& kernel, const Pieces& short_pieces, const Scratch& s,
                      const Operand& x) {
  // The buffers of a narrow type are for short pieces.
  const Pieces pieces = short_pieces.narrow ? short_pieces : short_pieces.longer(s.threads);
  parallel_parts(s.threads, pieces.count(), pieces.grain(), 1,
                 [&](int part, int64_t begin, int64_t end) {
                   int64_t before = 0;
                   for (int64_t i = begin; i < end; ++i) {
                     int64_t length = 0;
                     pieces.each_block(i, [&](int64_t c, int64_t offset, int64_t pixels) {
                       constexpr int64_t kOnlyRow = 0;
                       const int64_t block = pieces.view.block;
                       kernel.add_statistics(x.read(offset, pixels * block, s.buffer(part, 0)),
                                             &kOnlyRow, pixels, 0, pixels, block, before,
                                             s.first(part) + c, s.second(part) + c);
                       length = pixels;
                     });
                     before += length;
                   }
                   s.pixels(part) = static_cast<double>(before);
                 });
  for (int part = 1; part < s.threads; ++part) {
    const double a = s.pixels(0), b = s.pixels(part);
    if (b == 0) continue;
    for (int64_t c = 0; c < s.channels; ++c) {
      const double delta = s.first(part)[c] - s.first(0)[c];
      s.first(0)[c] += delta * b / (a + b);
      s.second(0)[c] += s.second(part)[c] + delta * delta * a * b / (a + b);
    }
    s.pixels(0) = a + b;
  }
  merge_lanes(s, pieces.lanes);
  const double count = std::max(s.pixels(0) * static_cast<double>(pieces.lanes), 1.0);
  for (int64_t c = 0; c < s.channels / pieces.lanes; ++c) s.second(0)[c] /= count;
}

void apply_normalisation(const kernels::Table& kernel, const Pieces& pieces, const Scratch& s,
                         const PostChain& chain, const rt_launch& l) {
  const Operand x(kernel, l.inputs[0], pieces.narrow), y(kernel, l.outputs[0], pieces.narrow);
  parallel_parts(
      s.threads, pieces.count(), pieces.grain(), 1, [&](int part, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          pieces.each_block(i, [&](int64_t c, int64_t offset, int64_t pixels) {
            const int64_t block = pieces.view.block, count = pixels * block;
            float* const to = y.write(offset, s.buffer(part, 1));
            kernel.normalise(x.read(offset, count, s.buffer(part, 0)), block, pixels, block,
                             s.vector(0) + c, s.vector(1) + c, s.vector(2) + c, to);
            y.written(offset, count, to, chain, l.inputs);
          });
        }
      });
}

// running = (1 - momentum) running + momentum value
void update_running(const rt_launch& l, uint32_t from, uint32_t to, const double* value,
                    double factor, double momentum, int64_t channels) {
  const float* before = input<float>(l, from);
  float* after = output<float>(l, to);
  for (int64_t c = 0; c < channels; ++c) {
    after[c] = static_cast<float>((1.0 - momentum) * before[c] + momentum * factor * value[c]);
  }
}

std::unique_ptr<Plan> make_batch_norm(const NativeContext& context, const Operation& op) {
  expect_counts(op, 5, 3);
  check_norm_types(op);
  expect_same_dims(op, op.input(0), op.output(0));
  const int64_t channels = last_dim(op.input(0));
  check_vectors(op, 1, 5, channels);
  const double epsilon = op.number(RT_ATTR_EPSILON), momentum = op.number(RT_ATTR_MOMENTUM, 0.1);
  const Pieces pieces(context, op, op.input(0));
  const Scratch layout{context.engine.threads(), pieces.channels(), pieces.buffer()};
  const PostChain chain(op, context.engine.channel_order(op.output(0)));
  auto plan = make_plan(
      context, "native:batch_norm", [=, &kernel = context.engine.kernels()](const rt_launch& l) {
        const Scratch s = layout.at(l.workspace);
        s.clear();
        batch_statistics(kernel, pieces, s, Operand(kernel, l.inputs[0], pieces.narrow));
        const double *mean = s.first(0), *variance = s.second(0);
        auto* saved = static_cast<float*>(l.saved);
        for (int64_t c = 0; c < channels; ++c) {
          const double inverse = 1.0 / std::sqrt(variance[c] + epsilon);
          const double factor = inverse * input<float>(l, 1)[c];
          const TwoFloats center(mean[c]);
          saved[c] = s.vector(0)[c] = center.near;
          saved[channels + c] = static_cast<float>(inverse);
          saved[2 * channels + c] = center.rest;
          s.vector(1)[c] = static_cast<float>(factor);
          s.vector(2)[c] = static_cast<float>(input<float>(l, 2)[c] - center.rest * factor);
        }
        for (const int i : {0, 1, 2}) s.spread(i, pieces.lanes);
        apply_normalisation(kernel, pieces, s, chain, l);
        const auto n = static_cast<double>(pieces.pixels());
        const double keep = n > 0 ? momentum : 0.0;  // an empty batch changes nothing
        update_running(l, 3, 1, mean, 1.0, keep, channels);
        update_running(l, 4, 2, variance, n > 1 ? n / (n - 1) : 1.0, keep, channels);
      });
  plan->edit().workspace_bytes = layout.bytes();
  plan->edit().saved_bytes = static_cast<uint64_t>(3 * channels) * sizeof(float);
  plan->edit().in_place = {1u << 0, 1u << 3, 1u << 4};
  return plan;
}

std::unique_ptr<Plan> make_batch_norm_inference(const NativeContext& context, const Operation& op) {
  expect_counts(op, 5, 1);
  check_norm_types(op);
  expect_same_dims(op, op.input(0), op.output(0));
  const int64_t channels = last_dim(op.input(0));
  check_vectors(op, 1, 5, channels);
  const double epsilon = op.number(RT_ATTR_EPSILON);
  const Pieces pieces(context, op, op.input(0));
  const Scratch layout{context.engine.threads(), pieces.channels(), pieces.buffer()};
  const PostChain chain(op, context.engine.channel_order(op.output(0)));
  auto plan =
      make_plan(context, "native:batch_norm_inference",
                [=, &kernel = context.engine.kernels()](const rt_launch& l) {
                  const Scratch s = layout.at(l.workspace);
                  s.clear();
                  for (int64_t c = 0; c < channels; ++c) {
                    const double inverse =
                        1.0 / std::sqrt(static_cast<double>(input<float>(l, 4)[c]) + epsilon);
                    s.vector(0)[c] = input<float>(l, 3)[c];
                    s.vector(1)[c] = static_cast<float>(inverse * input<float>(l, 1)[c]);
                    s.vector(2)[c] = input<float>(l, 2)[c];
                  }
                  for (const int i : {0, 1, 2}) s.spread(i, pieces.lanes);
                  apply_normalisation(kernel, pieces, s, chain, l);
                });
  plan->edit().workspace_bytes = layout.bytes();
  plan->edit().in_place[0] = 1u << 0;
  return plan;
}

// Writes the sums of dy and of dy (x - mean) to first(0) and second(0).
void gradient_sums(const kernels::Table& kernel, const Pieces& pieces, const Scratch& s,
                   const rt_launch& l) {
  const Operand dy(kernel, l.inputs[0], pieces.narrow), x(kernel, l.inputs[1], pieces.narrow);
  parallel_parts(
      s.threads, pieces.count(), pieces.grain(), 1, [&](int part, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          pieces.each_block(i, [&](int64_t c, int64_t offset, int64_t pixels) {
            const int64_t block = pieces.view.block, count = pixels * block;
            kernel.add_gradient_sums(dy.read(offset, count, s.buffer(part, 0)),
                                     x.read(offset, count, s.buffer(part, 1)), block, pixels, block,
                                     s.vector(0) + c, s.first(part) + c, s.second(part) + c);
          });
        }
      });
  for (int part = 1; part < s.threads; ++part) {
    for (int64_t c = 0; c < 2 * s.channels; ++c) s.first(0)[c] += s.first(part)[c];
  }
  if (pieces.lanes == 1) return;
  for (double* sums : {s.first(0), s.second(0)}) {
    for (int64_t c = 0; c < s.channels / pieces.lanes; ++c) {
      const double* lane = sums + c * pieces.lanes;
      sums[c] = std::accumulate(lane, lane + pieces.lanes, 0.0);
    }
  }
}

void apply_gradient(const kernels::Table& kernel, const Pieces& pieces, const Scratch& s,
                    const rt_launch& l) {
  const bool narrow = pieces.narrow;
  const Operand dy(kernel, l.inputs[0], narrow), x(kernel, l.inputs[1], narrow),
      dx(kernel, l.outputs[0], narrow);
  parallel_parts(s.threads, pieces.count(), pieces.grain(), 1,
                 [&](int part, int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     pieces.each_block(i, [&](int64_t c, int64_t offset, int64_t pixels) {
                       const int64_t block = pieces.view.block, count = pixels * block;
                       float* const to = dx.write(offset, s.buffer(part, 0));
                       kernel.normalise_backward(dy.read(offset, count, s.buffer(part, 0)),
                                                 x.read(offset, count, s.buffer(part, 1)), block,
                                                 pixels, block, s.vector(0) + c, s.vector(1) + c,
                                                 s.vector(2) + c, s.vector(3) + c, to);
                       dx.written(offset, count, to, {}, l.inputs);
                     });
                   }
                 });
}

std::unique_ptr<Plan> make_batch_norm_backward(const NativeContext& context, const Operation& op) {
  expect_counts(op, 3, 3);
  check_norm_types(op);
  expect_same_dims(op, op.input(0), op.output(0));
  expect_same_dims(op, op.input(1), op.output(0));
  const int64_t channels = last_dim(op.input(0));
  check_vectors(op, 2, 3, channels);
  const Pieces pieces(context, op, op.output(0));
  const Scratch layout{context.engine.threads(), pieces.channels(), pieces.buffer()};
  auto plan =
      make_plan(context, "native:batch_norm_backward",
                [=, &kernel = context.engine.kernels()](const rt_launch& l) {
                  const Scratch s = layout.at(l.workspace);
                  s.clear();
                  const auto* saved = static_cast<const float*>(l.saved);
                  std::copy(saved, saved + channels, s.vector(0));
                  s.spread(0, pieces.lanes);
                  gradient_sums(kernel, pieces, s, l);
                  const double n = std::max<double>(static_cast<double>(pieces.pixels()), 1.0);
                  for (int64_t c = 0; c < channels; ++c) {
                    const double inverse = saved[channels + c], rest = saved[2 * channels + c];
                    const double sum = s.first(0)[c], product = s.second(0)[c] - rest * sum;
                    const double slope = product * inverse * inverse / n;
                    s.vector(1)[c] = static_cast<float>(input<float>(l, 2)[c] * inverse);
                    s.vector(2)[c] = static_cast<float>(sum / n - rest * slope);
                    s.vector(3)[c] = static_cast<float>(slope);
                    output<float>(l, 1)[c] = static_cast<float>(product * inverse);
                    output<float>(l, 2)[c] = static_cast<float>(sum);
                  }
                  for (const int i : {1, 2, 3}) s.spread(i, pieces.lanes);
                  apply_gradient(kernel, pieces, s, l);
                });
  plan->edit().workspace_bytes = layout.bytes();
  plan->edit().in_place[0] = 0x3;
  return plan;
}

constexpr NativeKernel kNormKernels[] = {
    {RT_OP_BATCH_NORM, LayoutRule::kSameImage, make_batch_norm,
     NativeKernel::kFuses | NativeKernel::kBfloat16},
    {RT_OP_BATCH_NORM_INFERENCE, LayoutRule::kSameImage, make_batch_norm_inference,
     NativeKernel::kFuses | NativeKernel::kBfloat16},
    {RT_OP_BATCH_NORM_BACKWARD, LayoutRule::kSameImage, make_batch_norm_backward,
     NativeKernel::kBfloat16},
};

}  // namespace

KernelTable norm_kernels() { return {kNormKernels, std::size(kNormKernels)}; }

}  // namespace backends::cpu
