// Post-operations are applied to output 0, one after the other, after the operation has stored it.
#include <algorithm>

#include "backends/reference/activation.h"
#include "backends/reference/families.h"
#include "rt/sdk/elementwise.h"

namespace backends::reference {
namespace {

// `operand` is an input of the operation, or for RT_POST_STORE an output.
struct PostOperation {
  int32_t kind, function;
  uint32_t operand;
};

PostOperation check(const Operation& op, uint32_t i, rt_dtype dtype, const Dims& dims) {
  const rt_post_op& post = op.post_op(i);
  const auto operand = static_cast<uint32_t>(post.operand < 0 ? 0 : post.operand);
  switch (post.kind) {
    case RT_POST_BIAS:
      if (dims.empty()) op.fail("a bias needs a result with at least one dimension");
      expect_input(op, operand, "bias", dtype, {dims.back()});
      break;
    case RT_POST_ACTIVATION:
      rt::sdk::expect_differentiable(op, post.function);
      break;
    case RT_POST_ACTIVATION_BACKWARD:
      rt::sdk::expect_differentiable(op, post.function);
      expect_input(op, operand, "s", dtype, dims);
      break;
    case RT_POST_RESIDUAL_ADD:
      expect_input(op, operand, "residual", dtype, dims);
      break;
    case RT_POST_STORE: {
      const uint32_t last = op.output_count() - 1;
      expect_output(op, last, "stored", dtype, dims);
      return {post.kind, 0, last};
    }
    default:
      op.fail(rt::sdk::format("post-operation %u has kind %d, expected 1 (bias) to 5 (store)", i,
                              post.kind));
  }
  return {post.kind, post.function, operand};
}

template <typename T>
void apply(const PostOperation& post, int64_t count, int64_t width, const Buffers& b) {
  T* y = b.output<T>(0);
  if (post.kind == RT_POST_STORE) {
    std::copy_n(y, count, b.output<T>(post.operand));
    return;
  }
  const T* operand = b.input<T>(post.operand);
  switch (post.kind) {
    case RT_POST_BIAS:
      for (int64_t row = 0; row < count; row += width) {
        for (int64_t j = 0; j < width; ++j) y[row + j] += operand[j];
      }
      break;
    case RT_POST_ACTIVATION:
      with_differentiable(post.function, [&](auto f) {
        for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(f.value(y[i]));
      });
      break;
    case RT_POST_RESIDUAL_ADD:
      for (int64_t i = 0; i < count; ++i) y[i] += operand[i];
      break;
    case RT_POST_ACTIVATION_BACKWARD:
      with_differentiable(post.function, [&](auto f) {
        for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(f.backward(y[i], operand[i]));
      });
      break;
  }
}

}  // namespace

Kernel with_post_operations(const Operation& op, Kernel kernel) {
  if (op.post_op_count() == 0) return kernel;
  const rt_dtype dtype = floating_output(op, 0, "y");
  const Dims dims = dims_of(op.output(0));
  std::vector<PostOperation> posts;
  for (uint32_t i = 0; i < op.post_op_count(); ++i) posts.push_back(check(op, i, dtype, dims));
  const int64_t count = product(dims), width = dims.empty() ? 1 : dims.back();
  return for_floating(dtype, [&]<typename T>() {
    kernel.run = [inner = std::move(kernel.run), posts, count, width](const Buffers& b) {
      inner(b);
      for (const PostOperation& post : posts) apply<T>(post, count, width, b);
    };
    return std::move(kernel);
  });
}

}  // namespace backends::reference
