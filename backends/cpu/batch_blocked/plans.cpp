// Makes the plans of batch-blocked operations: reads their shapes, chooses the kernel, binds post-
// operations.
#include "backends/cpu/batch_blocked/plans.h"

#include <algorithm>
#include <array>

#include "backends/cpu/batch_blocked/convolution.h"
#include "backends/cpu/batch_blocked/matrix_unit_convolution.h"
#include "backends/cpu/batch_blocked/packed_gradient.h"
#include "backends/cpu/batch_blocked/pooled_convolution.h"
#include "backends/cpu/batch_blocked/pooled_gradient.h"
#include "backends/cpu/batch_blocked/pooling.h"
#include "backends/cpu/batch_blocked/reorder.h"
#include "backends/cpu/batch_blocked/weight_gradient.h"
#include "backends/cpu/batch_blocked/winograd.h"
#include "backends/cpu/batch_blocked/winograd_gradient.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/post_chain.h"
#include "backends/cpu/window.h"
#include "rt/operations.h"
#include "rt/sdk/conv_pool.h"

namespace backends::cpu::batch_blocked {

namespace {

const float* input(const rt_launch& launch, size_t i) {
  return static_cast<const float*>(launch.inputs[i]);
}
float* output(const rt_launch& launch, size_t i) { return static_cast<float*>(launch.outputs[i]); }

bool to_post(const rt_post_op& post, Post& kind) {
  const int32_t f = post.function;
  switch (post.kind) {
    case RT_POST_BIAS:
      kind = Post::kBias;
      return true;
    case RT_POST_RESIDUAL_ADD:
      kind = Post::kResidualAdd;
      return true;
    case RT_POST_ACTIVATION:
      kind = Post::kRelu;
      return f == RT_ACTIVATION_RELU;
    case RT_POST_ACTIVATION_BACKWARD:
      kind = f == RT_ACTIVATION_RELU   ? Post::kReluBackward
             : f == RT_ACTIVATION_TANH ? Post::kTanhBackward
                                       : Post::kSigmoidBackward;
      return f == RT_ACTIVATION_RELU || f == RT_ACTIVATION_TANH || f == RT_ACTIVATION_SIGMOID;
    default:
      return false;
  }
}

// The number of post-operations, from the first, that the kernels apply themselves.
uint32_t kernel_prefix(const Operation& op) {
  uint32_t count = 0;
  Post kind;
  while (count < op.post_op_count() && count < kMaxPostOps && to_post(op.post_op(count), kind)) {
    ++count;
  }
  return count;
}

// The post-operations of an operation. The kernels apply the first ones, whose operands are bound
// in each launch; a PostChain applies the others in a separate pass over the output.
class PostPlan {
 public:
  PostPlan(const Engine& engine, const Operation& op)
      : threads_(engine.threads()),
        kernels_(&engine.kernels()),
        count_(kernel_prefix(op)),
        rest_(op, channel_order(op.output(0).dims[3]), count_) {
    const rt_tensor_desc& y = op.output(0);
    elements_ = sample_blocks(y.dims[0]) * kBlock * y.dims[1] * y.dims[2] * y.dims[3];
    for (uint32_t i = 0; i < count_; ++i) {
      to_post(op.post_op(i), kinds_[i]);
      operands_[i] = op.post_op(i).operand;
    }
  }
  PostOps bind(const rt_launch& launch) const {
    PostOps post;
    for (uint32_t i = 0; i < count_; ++i) {
      const bool none = kinds_[i] == Post::kRelu;
      post.ops[i] = {kinds_[i], none ? nullptr : input(launch, static_cast<size_t>(operands_[i]))};
    }
    post.count = static_cast<int32_t>(count_);
    return post;
  }
  void finish(const rt_launch& launch) const {
    if (rest_.empty()) return;
    float* y = output(launch, 0);
    parallel_parts(threads_, elements_, kElementGrain, kBlock,
                   [&](int, int64_t begin, int64_t end) {
                     rest_.apply(*kernels_, y + begin, begin, end - begin, launch.inputs);
                   });
  }
  // Bytes that the separate pass reads and writes.
  double pass_bytes() const { return rest_.empty() ? 0.0 : 8.0 * static_cast<double>(elements_); }
  // The inputs that are read at an element just before that element is written, so that the output
  // may share their memory.
  uint32_t in_place_mask() const {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      if (kinds_[i] != Post::kRelu && kinds_[i] != Post::kBias) mask |= 1u << operands_[i];
    }
    return mask;
  }

 private:
  int threads_;
  const kernels::Table* kernels_;
  uint32_t count_;
  PostChain rest_;
  int64_t elements_ = 0;
  std::array<Post, kMaxPostOps> kinds_{};
  std::array<int32_t, kMaxPostOps> operands_{};
};

// Takes strides, padding and dilation from this folder's window or from the SDK's.
template <typename AnyWindow>
void set_window(ConvShape& s, const AnyWindow& window) {
  s.stride_h = window.stride_h;
  s.stride_w = window.stride_w;
  s.pad_top = window.pad_top;
  s.pad_left = window.pad_left;
  s.dilation_h = window.dilation_h;
  s.dilation_w = window.dilation_w;
}

ConvShape conv_shape(const Operation& op, const rt_tensor_desc& x, const rt_tensor_desc& w,
                     const rt_tensor_desc& y) {
  const Window window = convolution_window(op, x, w, y);
  ConvShape s{x.dims[0], x.dims[1], x.dims[2], x.dims[3], y.dims[3],
              w.dims[1], w.dims[2], y.dims[1], y.dims[2]};
  set_window(s, window);
  return s;
}

PooledShape pooled_shape(const Operation& op) {
  const rt::sdk::ConvPoolShape both =
      op.is(RT_OP_CONV2D_POOL2D) ? rt::sdk::conv2d_pool2d_shape(op, RT_FLOAT32)
                                 : rt::sdk::conv2d_pool2d_backward_weights_shape(op, RT_FLOAT32);
  const rt::sdk::ConvolutionShape& c = both.convolution;
  ConvShape s{c.n, c.h, c.w, c.c, c.o, c.window.kernel_h, c.window.kernel_w, c.p, c.q};
  set_window(s, c.window);
  return {s, both.kernel_h, both.kernel_w, both.average, both.function == RT_ACTIVATION_RELU};
}

bool is_backward_pool(const Operation& op) {
  return op.is(RT_OP_AVG_POOL2D_BACKWARD) || op.is(RT_OP_MAX_POOL2D_BACKWARD);
}

PoolKind pool_kind(const Operation& op) {
  const bool average = op.is(RT_OP_AVG_POOL2D) || op.is(RT_OP_AVG_POOL2D_BACKWARD);
  return average ? PoolKind::kAverage : PoolKind::kMax;
}

PoolShape pool_shape(const Operation& op) {
  const rt_tensor_desc& x = is_backward_pool(op) ? op.output(0) : op.input(0);
  const rt_tensor_desc& y = is_backward_pool(op) ? op.input(0) : op.output(0);
  const Window window = pooling_window(op, x, y);
  PoolShape s{x.dims[0], x.dims[1], x.dims[2],       x.dims[3],
              y.dims[1], y.dims[2], window.kernel_h, window.kernel_w};
  s.stride_h = window.stride_h;
  s.stride_w = window.stride_w;
  s.pad_top = window.pad_top;
  s.pad_left = window.pad_left;
  s.count_include_pad = op.integer(RT_ATTR_COUNT_INCLUDE_PAD, 1) != 0;
  return s;
}

double bytes_of(const Operation& op) {
  double bytes = 0;
  const auto add = [&](const rt_tensor_desc& t) {
    const int64_t n = std::max<int64_t>(t.dims[0], 1);
    const int64_t padded = t.rank == 4 ? sample_blocks(n) * kBlock : n;
    const int64_t elements = rt::sdk::element_count(t) / n * padded;
    bytes += 4.0 * static_cast<double>(elements);
  };
  for (uint32_t i = 0; i < op.input_count(); ++i) add(op.input(i));
  for (uint32_t i = 0; i < op.output_count(); ++i) add(op.output(i));
  return bytes;
}

constexpr double kLaunchNs = 4000;  // one parallel region with a barrier

// Bytes up to which operands count as cached. The engine's bandwidth is that of main memory, but
// what one operation of a training step has written is mostly still in the third-level cache when
// the next one reads it: measured were 2 times that rate for 15 MB and 4 times for 1 to 5 MB.
constexpr double kCachedBytes = 8 << 20;

double memory_ns(const Engine& engine, const Operation& op) {
  const double bytes = bytes_of(op);
  return bytes / (engine.bytes_per_ns() * (bytes < kCachedBytes ? 4 : 2));
}

const KernelTable& kernels_of(const Engine& engine) { return kernels_for(engine.isa()); }

// Nanoseconds of an operation. Computation and memory access overlap only in part.
double price(const Engine& engine, const Operation& op, double cycles) {
  const double compute = cycles * 2 * kernels_of(engine).lanes / engine.peak_flops_per_ns();
  const double memory = memory_ns(engine, op);
  return kLaunchNs + std::max(compute, memory) + 0.3 * std::min(compute, memory);
}

template <typename Body>
class BodyPlan : public Plan {
 public:
  BodyPlan(const Engine& engine, const char* name, uint64_t workspace, Body body)
      : body_(std::move(body)) {
    info_.workspace_bytes = workspace;
    info_.implementation = std::string("batch_blocked:") + name + ":" + kernels_of(engine).name;
  }
  PlanInfo& edit() { return info_; }
  void launch(const rt_launch& launch) override { body_(launch); }

 private:
  Body body_;
};

template <typename Body>
std::unique_ptr<BodyPlan<Body>> make_plan(const Engine& engine, const char* name,
                                          uint64_t workspace, Body body) {
  return std::make_unique<BodyPlan<Body>>(engine, name, workspace, std::move(body));
}

ConvShape conv_shape(const Operation& op) {
  if (op.is(RT_OP_CONV2D)) return conv_shape(op, op.input(0), op.input(1), op.output(0));
  if (op.is(RT_OP_CONV2D_BACKWARD_DATA)) {
    return conv_shape(op, op.output(0), op.input(1), op.input(0));
  }
  return conv_shape(op, op.input(0), op.output(0), op.input(1));
}

template <typename Kernel>
Priced convolution_plan(const Engine& engine, const Operation& op, const char* name) {
  const Direction direction = op.is(RT_OP_CONV2D) ? Direction::kForward : Direction::kBackwardData;
  const Kernel kernel(conv_shape(op), direction, engine.threads(), kernels_of(engine));
  const PostPlan post(engine, op);
  auto plan = make_plan(engine, name, kernel.workspace_bytes(), [=](const rt_launch& l) {
    kernel.run(input(l, 0), input(l, 1), output(l, 0), l.workspace, post.bind(l));
    post.finish(l);
  });
  // Winograd's data gradient adds to its output before it reads any operand of a post-operation,
  // and the matrix unit may have to leave everything to another algorithm in the middle.
  const bool adds = std::is_same_v<Kernel, Winograd> && direction == Direction::kBackwardData;
  if (!adds && !std::is_same_v<Kernel, MatrixUnitConvolution>)
    plan->edit().in_place[0] = post.in_place_mask();
  const double pass = post.pass_bytes() / engine.bytes_per_ns();
  return {std::move(plan), price(engine, op, kernel.cycles()) + pass};
}

template <typename Kernel>
Priced gradient_plan(const Engine& engine, const Operation& op, const char* name,
                     const Kernel& kernel) {
  const bool bias = op.output_count() > 1;
  auto plan = make_plan(engine, name, kernel.workspace_bytes(), [=](const rt_launch& l) {
    kernel.run(input(l, 0), input(l, 1), output(l, 0), bias ? output(l, 1) : nullptr, l.workspace);
  });
  return {std::move(plan), price(engine, op, kernel.cycles())};
}

}  // namespace

bool winograd_fits(const Engine& engine, const Operation& op) {
  const ConvShape shape = conv_shape(op);
  if (!find_winograd(shape, kernels_of(engine))) return false;
  return !op.is(RT_OP_CONV2D_BACKWARD_WEIGHTS) ||
         WinogradGradient(shape, engine.threads(), kernels_of(engine)).fits_memory();
}

bool matrix_unit_fits(const Engine& engine) {
  return engine.bf16x3() && engine.isa() == Isa::kAvx512 && matrix_unit_kernels() != nullptr;
}

Priced make_convolution(const Engine& engine, const Operation& op, uint32_t algorithm) {
  if (algorithm == kMatrixUnitAlgorithm) {
    return convolution_plan<MatrixUnitConvolution>(engine, op, "matrix_unit");
  }
  return algorithm == kWinogradAlgorithm ? convolution_plan<Winograd>(engine, op, "winograd")
                                         : convolution_plan<Convolution>(engine, op, "direct");
}

Priced make_weight_gradient(const Engine& engine, const Operation& op, uint32_t algorithm) {
  const ConvShape shape = conv_shape(op);
  const int threads = engine.threads();
  const KernelTable& kernels = kernels_of(engine);
  switch (algorithm) {
    case kWinogradAlgorithm:
      return gradient_plan(engine, op, "winograd", WinogradGradient(shape, threads, kernels));
    case kMatrixUnitAlgorithm:
      return gradient_plan(
          engine, op, "matrix_unit",
          PackedGradient(shape, threads, *matrix_unit_gradient_kernels(), kernels));
    case kPackedAlgorithm:
      return gradient_plan(
          engine, op, "packed",
          PackedGradient(shape, threads, gradient_kernels_for(engine.isa()), kernels));
    default:
      return gradient_plan(engine, op, "direct", WeightGradient(shape, threads, kernels));
  }
}

std::string pooling_refusal(const Operation& op) {
  const PoolShape shape = pool_shape(op);
  if (pool_kind(op) == PoolKind::kMax &&
      max_pool_saved_element_bytes(shape.kernel_h, shape.kernel_w) != 1) {
    return rt::sdk::format("a window of %ld x %ld, at most 256 elements",
                           static_cast<long>(shape.kernel_h), static_cast<long>(shape.kernel_w));
  }
  if (is_backward_pool(op) && !Pooling::supports_backward(shape, pool_kind(op))) {
    return "padding that does not count, without its gradient";
  }
  return {};
}

Priced make_pooling(const Engine& engine, const Operation& op) {
  const PoolShape shape = pool_shape(op);
  const PoolKind kind = pool_kind(op);
  const Pooling kernel(shape, kind, engine.threads(), kernels_of(engine));
  const PostPlan post(engine, op);
  const bool backward = is_backward_pool(op), max = kind == PoolKind::kMax;
  Priced result;
  // The positions of max pooling are stored separately for each sample, which costs 2 ns per
  // element and core.
  const double scattered =
      max ? 2.0 * static_cast<double>(shape.n * shape.p * shape.q * shape.c) / engine.threads() : 0;
  result.estimated_ns =
      kLaunchNs + memory_ns(engine, op) + scattered + post.pass_bytes() / engine.bytes_per_ns();
  auto plan = make_plan(engine, op.desc().name, 0, [=](const rt_launch& l) {
    auto* saved = static_cast<uint8_t*>(l.saved);
    if (backward) {
      kernel.backward(input(l, 0), saved, output(l, 0), post.bind(l));
    } else {
      kernel.forward(input(l, 0), output(l, 0), saved, post.bind(l));
    }
    post.finish(l);
  });
  if (max && !backward) {
    plan->edit().saved_bytes = static_cast<uint64_t>(shape.n * shape.p * shape.q * shape.c);
  }
  // The gradient of max pooling clears its output before it reads any operand of a post-operation.
  if (!(max && backward)) plan->edit().in_place[0] = post.in_place_mask();
  result.plan = std::move(plan);
  return result;
}

// The most products for an element of the image with which its way through memory takes longer than
// the direct algorithm. With more, a faster algorithm and a pooling of its own win.
constexpr int64_t kMostPooledProducts = 75;
// The most bytes of the image's rows under one row of windows of a sample block, so that they stay
// in the second-level cache.
constexpr int64_t kMostStripBytes = 1 << 20;

std::string pooled_refusal(const Operation& op) {
  const int64_t function = op.integer(RT_ATTR_FUNCTION, 0);
  if (function != 0 && function != RT_ACTIVATION_RELU) return "another activation than relu";
  const PooledShape shape = pooled_shape(op);
  const ConvShape& s = shape.conv;
  if (s.c * s.kh * s.kw > kMostPooledProducts) {
    return rt::sdk::format("%ld products for an element of the convolution, at most %ld",
                           static_cast<long>(s.c * s.kh * s.kw),
                           static_cast<long>(kMostPooledProducts));
  }
  const int64_t strip = shape.window_h * s.q * s.o * kBlock * static_cast<int64_t>(sizeof(float));
  if (strip > kMostStripBytes) {
    return rt::sdk::format("rows under a window of %ld bytes, at most %ld",
                           static_cast<long>(strip), static_cast<long>(kMostStripBytes));
  }
  if (2 * s.n < sample_blocks(s.n) * kBlock) {
    return rt::sdk::format("%ld samples, which fill less than half of the lanes",
                           static_cast<long>(s.n));
  }
  return {};
}

// An image of canonical samples in the blocked layout, in a part of the workspace.
class BlockedImage {
 public:
  // `at`: the bytes of the workspace in front of the image. If the tensor is not canonical, it is
  // in the blocked layout already.
  BlockedImage(const Engine& engine, const rt_tensor_desc& tensor, bool is_canonical, uint64_t at)
      : engine_(&engine),
        is_canonical_(is_canonical),
        samples_(tensor.dims[0]),
        elements_(tensor.dims[1] * tensor.dims[2] * tensor.dims[3]),
        at_(at) {}
  uint64_t end() const {
    const int64_t floats = sample_blocks(samples_) * kBlock * elements_;
    return at_ + (is_canonical_ ? static_cast<uint64_t>(floats) * sizeof(float) : 0);
  }
  const float* read(const float* image, void* workspace) const {
    if (!is_canonical_) return image;
    to_blocked(image, samples_, elements_, place(workspace), engine_->threads(),
               kernels_of(*engine_));
    return place(workspace);
  }
  // Where to write the image, which finish() brings to its place.
  float* target(float* image, void* workspace) const {
    return is_canonical_ ? place(workspace) : image;
  }
  void finish(float* image, void* workspace) const {
    if (!is_canonical_) return;
    from_blocked(place(workspace), samples_, elements_, image, engine_->threads(),
                 kernels_of(*engine_));
  }

 private:
  float* place(void* workspace) const {
    return reinterpret_cast<float*>(static_cast<char*>(workspace) + at_);
  }

  const Engine* engine_;
  bool is_canonical_;
  int64_t samples_, elements_;
  uint64_t at_;
};

template <typename Kernel>
Priced pooled_plan(const Engine& engine, const Operation& op) {
  constexpr bool kForward = std::is_same_v<Kernel, PooledConvolution>;
  const PooledShape shape = pooled_shape(op);
  const Kernel kernel(shape, engine.threads(), kernels_of(engine));
  const rt_tensor_desc& result = kForward ? op.output(0) : op.input(1);
  // Both images have one layout; a query may leave that of one of them open.
  const bool is_canonical =
      op.input(0).layout == RT_LAYOUT_CANONICAL || result.layout == RT_LAYOUT_CANONICAL;
  const auto kernel_bytes = static_cast<int64_t>(kernel.workspace_bytes());
  const BlockedImage x(engine, op.input(0), is_canonical,
                       static_cast<uint64_t>(round_up(kernel_bytes, kBlock * sizeof(float))));
  const BlockedImage y(engine, result, is_canonical, x.end());
  auto plan = make_plan(engine, op.desc().name, y.end(), [=](const rt_launch& l) {
    const float* const from = x.read(input(l, 0), l.workspace);
    if constexpr (kForward) {
      float* const to = y.target(output(l, 0), l.workspace);
      kernel.run(from, input(l, 1), input(l, 2), to, static_cast<uint16_t*>(l.saved), l.workspace);
      y.finish(output(l, 0), l.workspace);
    } else {
      const float* const dy = y.read(input(l, 1), l.workspace);
      kernel.run(from, dy, static_cast<const uint16_t*>(l.saved), output(l, 0), output(l, 1),
                 l.workspace);
    }
  });
  if (kForward) plan->edit().saved_bytes = shape.saved_bytes();
  // Each image that is copied is read and written once more.
  const double copied = 2 * static_cast<double>(y.end() - kernel.workspace_bytes());
  return {std::move(plan), price(engine, op, kernel.cycles()) + copied / engine.bytes_per_ns()};
}

Priced make_pooled(const Engine& engine, const Operation& op) {
  return op.is(RT_OP_CONV2D_POOL2D) ? pooled_plan<PooledConvolution>(engine, op)
                                    : pooled_plan<PooledGradient>(engine, op);
}

Priced make_copy(const Engine& engine, const Operation& op) {
  const rt_tensor_desc& from = op.input(0);
  const int64_t samples = from.dims[0];
  const int64_t elements = from.dims[1] * from.dims[2] * from.dims[3];
  const bool block = from.layout == RT_LAYOUT_CANONICAL;
  const int threads = engine.threads();
  const KernelTable& kernels = kernels_of(engine);
  Priced result;
  result.estimated_ns = kLaunchNs + 1.3 * memory_ns(engine, op);
  result.plan = make_plan(
      engine, block ? "to_n16hwc16n" : "from_n16hwc16n", 0, [=, &kernels](const rt_launch& l) {
        block ? to_blocked(input(l, 0), samples, elements, output(l, 0), threads, kernels)
              : from_blocked(input(l, 0), samples, elements, output(l, 0), threads, kernels);
      });
  return result;
}

}  // namespace backends::cpu::batch_blocked
