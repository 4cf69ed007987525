// The post-operations that a kernel applies to its result before it stores it.
#ifndef BACKENDS_GPU_POST_OPS_H_
#define BACKENDS_GPU_POST_OPS_H_

#include "backends/gpu/activation.h"
#include "backends/gpu/vector_kernel.h"

namespace backends::gpu {

// The place of N neighbouring elements of a result: `index` is the row-major number of the first,
// which is in column `column` of `columns`; those behind the last column are in the next row.
struct Place {
  int64_t index, column, columns;
};

// y += b, b [columns]
template <typename T, int N>
GPU_DEVICE void add_bias(const T* b, const Place& at, Compute<T> (&y)[N]) {
  if (at.columns % N == 0) {
    const Pack<T, N> bias = load<N>(b + at.column);
    GPU_UNROLL
    for (int k = 0; k < N; ++k) y[k] += static_cast<Compute<T>>(bias.value[k]);
    return;
  }
  int64_t column = at.column;
  GPU_UNROLL
  for (int k = 0; k < N; ++k) {
    y[k] += static_cast<Compute<T>>(b[column]);
    if (++column == at.columns) column = 0;
  }
}

// The post-operations of one launch. They are known at run time only, so every one costs a few
// branches. FixedPosts (fixed_posts.h) has the frequent ones.
struct PostOps {
  struct Step {
    int32_t kind, function;
    const void* operand;  // for RT_POST_STORE the address that is written
  };
  int32_t count = 0;
  Step steps[kMostPostOps];

  // Applies them to the elements at `at`.
  template <typename T, int N>
  GPU_DEVICE void apply(const Place& at, Compute<T> (&y)[N]) const {
    for (int32_t i = 0; i < count; ++i) apply_step<T, N>(step(i), at, y);
  }
  // Applies them to the element with the row-major number `index` in column `column`.
  template <typename T>
  GPU_DEVICE Compute<T> apply(Compute<T> y, int64_t index, int64_t column) const {
    Compute<T> one[1] = {y};
    apply<T, 1>(Place{index, column, 1}, one);
    return one[0];
  }

 private:
  // An index that is not a constant would copy all steps to the memory of the thread.
  GPU_DEVICE Step step(int32_t i) const {
    Step chosen = steps[0];
    GPU_UNROLL
    for (int32_t k = 1; k < kMostPostOps; ++k) {
      if (i == k) chosen = steps[k];
    }
    return chosen;
  }
  template <typename T, int N>
  GPU_DEVICE static void apply_step(const Step& step, const Place& at, Compute<T> (&y)[N]) {
    const T* operand = static_cast<const T*>(step.operand);
    if (step.kind == RT_POST_BIAS) return add_bias<T, N>(operand, at, y);
    if (step.kind == RT_POST_ACTIVATION) return activate<T, N>(step.function, y);
    if (step.kind == RT_POST_STORE) {
      T* const to = const_cast<T*>(operand);
      return store<N>(to + at.index, narrow<T, N>(y));
    }
    Compute<T> other[N];
    widen<T, N>(load<N>(operand + at.index), other);
    if (step.kind == RT_POST_ACTIVATION_BACKWARD) {
      return activate_backward<T, N>(step.function, y, other);
    }
    GPU_UNROLL
    for (int k = 0; k < N; ++k) y[k] += other[k];
  }
};

// Are the addresses of all operands multiples of 16?
inline bool aligned(const PostOps& posts) {
  for (int32_t i = 0; i < posts.count; ++i) {
    if (!aligned({posts.steps[i].operand})) return false;
  }
  return true;
}

// The post-operations of an operation; bind() adds the addresses of a launch.
class PostPlan {
 public:
  explicit PostPlan(const Operation& op) : stored_(op.output_count() - 1) {
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
      PostOps::Step& step = bound.steps[i];
      if (step.kind == RT_POST_STORE) {
        step.operand = launch.outputs[stored_];
      } else if (operands_[i] >= 0) {
        step.operand = launch.inputs[operands_[i]];
      }
    }
    return bound;
  }
  bool empty() const { return steps_.count == 0; }

 private:
  PostOps steps_;
  int32_t operands_[kMostPostOps] = {};
  uint32_t stored_;  // the output of RT_POST_STORE
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_POST_OPS_H_
