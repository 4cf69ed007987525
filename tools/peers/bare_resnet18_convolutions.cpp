// Measures all convolutions of ResNet-18 for CIFAR at batch 64, forward and both gradients, as bare
// oneDNN primitives in oneDNN's own formats: with the direct algorithm, with Winograd where oneDNN
// has it, and with the faster of the two for each convolution. This is the speed that the
// convolutions of configs/bench_resnet18.toml could reach with oneDNN alone.
//
//   bare_resnet18_convolutions [--steps N] [--threads T] [--layers]

#include <algorithm>
#include <cstdio>
#include <limits>

#include "tools/peers/sequence.h"

namespace {

using bench::Dims;
using bench::Sequence;
using bench::Tag;
using dnnl::algorithm;

constexpr int64_t kBatch = 64;
constexpr double kNever = std::numeric_limits<double>::infinity();

struct Shape {
  int count;  // number of such convolutions in the network
  int64_t inputs, outputs, size, kernel, stride;
};

constexpr Shape kShapes[] = {
    {1, 3, 64, 32, 3, 1},    {4, 64, 64, 32, 3, 1},   {1, 64, 128, 32, 3, 2},
    {3, 128, 128, 16, 3, 1}, {1, 64, 128, 32, 1, 2},  {1, 128, 256, 16, 3, 2},
    {3, 256, 256, 8, 3, 1},  {1, 128, 256, 16, 1, 2}, {1, 256, 512, 8, 3, 2},
    {3, 512, 512, 4, 3, 1},  {1, 256, 512, 8, 1, 2}};

enum class Direction { kForward, kWeights, kData };

struct Descriptions {
  dnnl::memory::desc source, weights, output;
  Dims strides, padding;
};

Descriptions describe_shape(const Shape& s) {
  const int64_t out = s.size / s.stride, pad = s.kernel / 2;
  return {bench::describe({kBatch, s.inputs, s.size, s.size}, Tag::any),
          bench::describe({s.outputs, s.inputs, s.kernel, s.kernel}, Tag::any),
          bench::describe({kBatch, s.outputs, out, out}, Tag::any),
          {s.stride, s.stride},
          {pad, pad}};
}

dnnl::convolution_forward::primitive_desc forward_desc(Sequence& q, const Descriptions& d,
                                                       algorithm a) {
  return {{dnnl::prop_kind::forward_training, a, d.source, d.weights, d.output, d.strides,
           d.padding, d.padding},
          Sequence::attributes(),
          q.engine()};
}

void add_forward(Sequence& q, const Descriptions& d, algorithm a) {
  const auto pd = forward_desc(q, d, a);
  q.add("forward", pd, dnnl::convolution_forward(pd),
        {{DNNL_ARG_SRC, q.allocate(pd.src_desc())},
         {DNNL_ARG_WEIGHTS, q.allocate(pd.weights_desc())},
         {DNNL_ARG_DST, q.allocate(pd.dst_desc())}});
}

void add_weights(Sequence& q, const Descriptions& d, algorithm a) {
  const dnnl::convolution_backward_weights::primitive_desc pd(
      {a, d.source, d.weights, d.output, d.strides, d.padding, d.padding}, Sequence::attributes(),
      q.engine(), forward_desc(q, d, a));
  q.add("weights", pd, dnnl::convolution_backward_weights(pd),
        {{DNNL_ARG_SRC, q.allocate(pd.src_desc())},
         {DNNL_ARG_DIFF_DST, q.allocate(pd.diff_dst_desc())},
         {DNNL_ARG_DIFF_WEIGHTS, q.allocate(pd.diff_weights_desc())}});
}

void add_data(Sequence& q, const Descriptions& d, algorithm a) {
  const dnnl::convolution_backward_data::primitive_desc pd(
      {a, d.source, d.weights, d.output, d.strides, d.padding, d.padding}, Sequence::attributes(),
      q.engine(), forward_desc(q, d, a));
  q.add("data", pd, dnnl::convolution_backward_data(pd),
        {{DNNL_ARG_DIFF_DST, q.allocate(pd.diff_dst_desc())},
         {DNNL_ARG_WEIGHTS, q.allocate(pd.weights_desc())},
         {DNNL_ARG_DIFF_SRC, q.allocate(pd.diff_src_desc())}});
}

// Returns milliseconds, or kNever if oneDNN has no such implementation.
double time_convolution(const Shape& shape, Direction direction, algorithm a, int64_t steps) {
  Sequence q;
  const Descriptions d = describe_shape(shape);
  try {
    if (direction == Direction::kForward) add_forward(q, d, a);
    if (direction == Direction::kWeights) add_weights(q, d, a);
    if (direction == Direction::kData) add_data(q, d, a);
  } catch (const dnnl::error& e) {
    if (e.status != dnnl_unimplemented) throw;
    return kNever;
  }
  return q.measure(steps);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments = bench::parse_arguments(argc, argv);
  double direct_sum = 0, best_sum = 0;
  for (const Shape& s : kShapes) {
    double ms[3][2];
    for (int direction = 0; direction < 3; ++direction) {
      // The first layer's input needs no gradient.
      const bool needed = direction != static_cast<int>(Direction::kData) || s.inputs != 3;
      const algorithm algorithms[] = {algorithm::convolution_direct,
                                      algorithm::convolution_winograd};
      for (int a = 0; a < 2; ++a)
        ms[direction][a] = needed ? time_convolution(s, static_cast<Direction>(direction),
                                                     algorithms[a], arguments.steps)
                                  : 0;
      direct_sum += s.count * ms[direction][0];
      best_sum += s.count * std::min(ms[direction][0], ms[direction][1]);
    }
    if (arguments.layers)
      std::fprintf(stderr,
                   "%d x %lldx%lld %lld->%lld /%lld at %lld: direct %.2f %.2f %.2f ms, Winograd "
                   "%.2f %.2f %.2f ms (forward, weights, data)\n",
                   s.count, static_cast<long long>(s.kernel), static_cast<long long>(s.kernel),
                   static_cast<long long>(s.inputs), static_cast<long long>(s.outputs),
                   static_cast<long long>(s.stride), static_cast<long long>(s.size), ms[0][0],
                   ms[1][0], ms[2][0], ms[0][1], ms[1][1], ms[2][1]);
  }
  const auto rate = [](double ms) { return static_cast<double>(kBatch) / ms * 1e3; };
  std::printf(
      "{\"step_ms_median\":%.3f,\"samples_per_second\":%.1f,\"steps\":%lld,"
      "\"direct_samples_per_second\":%.1f}\n",
      best_sum, rate(best_sum), static_cast<long long>(arguments.steps), rate(direct_sum));
}
