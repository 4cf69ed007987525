// What all kernels share: element types, block-wide reductions, grid sizes, post-operations.
#ifndef BACKENDS_GPU_DEVICE_CODE_H_
#define BACKENDS_GPU_DEVICE_CODE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backends/gpu/plan.h"

namespace backends::gpu {

// The type that an element is computed in.
template <typename T>
struct ComputeOf {
  using type = float;
};
template <>
struct ComputeOf<double> {
  using type = double;
};
template <typename T>
using Compute = typename ComputeOf<T>::type;

// Calls body.operator()<float>() or <double>().
template <typename Body>
auto for_floating(rt_dtype dtype, Body&& body) {
  return dtype == RT_FLOAT64 ? body.template operator()<double>()
                             : body.template operator()<float>();
}

inline constexpr int kBlock = 256;            // threads
inline constexpr int64_t kMostBlocks = 8192;  // of a grid-stride loop

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
// Blocks for `count` elements, `each` per thread, in a grid-stride loop; at least one.
inline uint32_t grid_for(int64_t count, int64_t each = 1) {
  return static_cast<uint32_t>(
      std::clamp<int64_t>(divide_up(count, kBlock * each), 1, kMostBlocks));
}

GPU_DEVICE int64_t global_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
GPU_DEVICE int64_t global_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

struct Sum {
  template <typename T>
  GPU_DEVICE static T combine(T a, T b) {
    return a + b;
  }
};
struct Max {
  template <typename T>
  GPU_DEVICE static T combine(T a, T b) {
    return a != a || a > b ? a : b;
  }  // NaN wins
};

// The combination of the `value`s of all kBlock threads, in every thread; `scratch` has room for
// kBlock values and may be used again after the next __syncthreads. The order of combination is
// fixed, so the bits are the same every time.
template <typename How, typename T>
GPU_DEVICE T block_reduce(T value, T* scratch) {
  const int t = static_cast<int>(threadIdx.x);
  scratch[t] = value;
  __syncthreads();
  for (int step = kBlock / 2; step > 0; step /= 2) {
    if (t < step) scratch[t] = How::combine(scratch[t], scratch[t + step]);
    __syncthreads();
  }
  const T result = scratch[0];
  __syncthreads();
  return result;
}

// erf, exp... of the type.
GPU_DEVICE float erf_of(float x) { return erff(x); }
GPU_DEVICE double erf_of(double x) { return erf(x); }
GPU_DEVICE float exp_of(float x) { return expf(x); }
GPU_DEVICE double exp_of(double x) { return exp(x); }
GPU_DEVICE float tanh_of(float x) { return tanhf(x); }
GPU_DEVICE double tanh_of(double x) { return tanh(x); }
GPU_DEVICE float log_of(float x) { return logf(x); }
GPU_DEVICE double log_of(double x) { return log(x); }
GPU_DEVICE float sqrt_of(float x) { return sqrtf(x); }
GPU_DEVICE double sqrt_of(double x) { return sqrt(x); }

// f(x); formulas in plugins/operations.md.
template <typename C>
GPU_DEVICE C activate(int32_t function, C x) {
  switch (function) {
    case RT_ACTIVATION_RELU:
      return x > C(0) ? x : (x != x ? x : C(0));
    case RT_ACTIVATION_GELU:
      return C(0.5) * x * (C(1) + erf_of(x * C(0.70710678118654752440)));
    case RT_ACTIVATION_GELU_TANH:
      return C(0.5) * x *
             (C(1) + tanh_of(C(0.79788456080286535588) * (x + C(0.044715) * x * x * x)));
    case RT_ACTIVATION_TANH:
      return tanh_of(x);
    default:
      return C(1) / (C(1) + exp_of(-x));
  }
}

// dy f', from y (relu, tanh, sigmoid) or x (the two gelus).
template <typename C>
GPU_DEVICE C activate_backward(int32_t function, C dy, C s) {
  switch (function) {
    case RT_ACTIVATION_RELU:
      return s > C(0) ? dy : C(0);
    case RT_ACTIVATION_GELU:
      return dy * (C(0.5) * (C(1) + erf_of(s * C(0.70710678118654752440))) +
                   s * C(0.39894228040143267794) * exp_of(C(-0.5) * s * s));
    case RT_ACTIVATION_GELU_TANH: {
      const C t = tanh_of(C(0.79788456080286535588) * (s + C(0.044715) * s * s * s));
      const C slope = C(0.79788456080286535588) * (C(1) + C(3 * 0.044715) * s * s);
      return dy * (C(0.5) * (C(1) + t) + C(0.5) * s * (C(1) - t * t) * slope);
    }
    case RT_ACTIVATION_TANH:
      return dy * (C(1) - s * s);
    default:
      return dy * s * (C(1) - s);
  }
}

// Post-operations of one launch, applied to element `index` (row-major) in column `column`.
struct PostOps {
  struct Step {
    int32_t kind, function;
    const void* operand;
  };
  int32_t count = 0;
  Step steps[kMostPostOps];

  template <typename T>
  GPU_DEVICE Compute<T> apply(Compute<T> y, int64_t index, int64_t column) const {
    for (int32_t i = 0; i < count; ++i) {
      const T* operand = static_cast<const T*>(steps[i].operand);
      switch (steps[i].kind) {
        case RT_POST_BIAS:
          y += static_cast<Compute<T>>(operand[column]);
          break;
        case RT_POST_ACTIVATION:
          y = activate(steps[i].function, y);
          break;
        case RT_POST_RESIDUAL_ADD:
          y += static_cast<Compute<T>>(operand[index]);
          break;
        default:
          y = activate_backward(steps[i].function, y, static_cast<Compute<T>>(operand[index]));
      }
    }
    return y;
  }
};

// The post-operations of an operation; bind() gives them a launch's addresses.
class PostPlan {
 public:
  explicit PostPlan(const Operation& op) {
    steps_.count = static_cast<int32_t>(op.post_op_count());
    for (int32_t i = 0; i < steps_.count; ++i) {
      const rt_post_op& post = op.post_op(static_cast<uint32_t>(i));
      steps_.steps[i] = {post.kind, post.function, nullptr};
      operands_[i] = post.operand;
    }
  }
  PostOps bind(const Launch& launch) const {
    PostOps bound = steps_;
    for (int32_t i = 0; i < bound.count; ++i) {
      if (operands_[i] >= 0) bound.steps[i].operand = launch.inputs[operands_[i]];
    }
    return bound;
  }

 private:
  PostOps steps_;
  int32_t operands_[kMostPostOps] = {};
};

// Shapes as kernels see them.
inline int64_t last_dim(const rt_tensor_desc& t) { return t.rank > 0 ? t.dims[t.rank - 1] : 1; }
inline int64_t row_count(const rt_tensor_desc& t) {
  int64_t rows = 1;
  for (int32_t i = 0; i + 1 < t.rank; ++i) rows *= t.dims[i];
  return rows;
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_DEVICE_CODE_H_
