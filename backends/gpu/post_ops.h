// Activations, and the post-operations that a kernel applies to its result before it stores it.
#ifndef BACKENDS_GPU_POST_OPS_H_
#define BACKENDS_GPU_POST_OPS_H_

#include "backends/gpu/device_code.h"

namespace backends::gpu {

// P(X <= x) of the normal distribution, and its approximation by tanh. Both are in a form that
// keeps its digits where the result is small.
template <typename C>
GPU_DEVICE C normal_cdf(C x) {
  return C(0.5) * erfc_of(x * C(-0.70710678118654752440));
}
template <typename C>
GPU_DEVICE C normal_cdf_by_tanh(C x) {
  return C(1) / (C(1) + exp_of(C(-2 * 0.79788456080286535588) * (x + C(0.044715) * x * x * x)));
}

// f(x) for the functions that post-operations have. The formulas are in plugins/operations.md.
template <typename C>
GPU_DEVICE C activate(int32_t function, C x) {
  switch (function) {
    case RT_ACTIVATION_RELU:
      return x > C(0) ? x : (x != x ? x : C(0));
    case RT_ACTIVATION_GELU:
      return x * normal_cdf(x);
    case RT_ACTIVATION_GELU_TANH:
      return x * normal_cdf_by_tanh(x);
    case RT_ACTIVATION_TANH:
      return tanh_of(x);
    default:
      return C(1) / (C(1) + exp_of(-x));
  }
}

// dy times the derivative of f. s is y for relu, tanh and sigmoid, and x for the two gelus.
template <typename C>
GPU_DEVICE C activate_backward(int32_t function, C dy, C s) {
  switch (function) {
    case RT_ACTIVATION_RELU:
      return s <= C(0) ? C(0) : dy;  // a NaN lets the gradient through, as in PyTorch
    case RT_ACTIVATION_GELU:
      return dy * (normal_cdf(s) + s * C(0.39894228040143267794) * exp_of(C(-0.5) * s * s));
    case RT_ACTIVATION_GELU_TANH: {
      const C cdf = normal_cdf_by_tanh(s);
      // Limits the slope to finite values, because it is multiplied by 0 where the cdf is 0 or 1.
      const C near = s < C(-1e4) ? C(-1e4) : (s > C(1e4) ? C(1e4) : s);
      const C slope = C(2 * 0.79788456080286535588) * (C(1) + C(3 * 0.044715) * near * near);
      return dy * (cdf + s * cdf * (C(1) - cdf) * slope);
    }
    case RT_ACTIVATION_TANH:
      return dy * (C(1) - s * s);
    default:
      return dy * s * (C(1) - s);
  }
}

// The post-operations of one launch. apply() applies them to the element with the row-major number
// `index` in column `column`.
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

// The post-operations of an operation; bind() adds the addresses of a launch.
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

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_POST_OPS_H_
