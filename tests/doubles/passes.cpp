// Implements backends/gpu/passes.h in host memory, with sums in float64.
#include "backends/gpu/passes.h"

#include <algorithm>
#include <vector>

#include "backends/reference/activation.h"

namespace backends::gpu {
namespace {

using rt::sdk::element_count;

template <typename T>
double apply(const rt_post_op& post, double y, const T* operand, int64_t i, int64_t columns) {
  const auto value = [&](int64_t at) { return static_cast<double>(operand[at]); };
  if (post.kind == RT_POST_BIAS) return y + value(i % columns);
  if (post.kind == RT_POST_RESIDUAL_ADD) return y + value(i);
  reference::with_differentiable(post.function, [&](auto function) {
    y = post.kind == RT_POST_ACTIVATION ? function.value(y) : function.backward(y, value(i));
  });
  return y;
}

template <typename T>
Pass make_post_pass(const Operation& op, uint32_t first) {
  std::vector<rt_post_op> posts;
  for (uint32_t i = first; i < op.post_op_count(); ++i) posts.push_back(op.post_op(i));
  const int64_t count = element_count(op.output(0)),
                columns = op.output(0).dims[op.output(0).rank - 1];
  return [=](const Launch& l) {
    for (int64_t i = 0; i < count; ++i) {
      double y = static_cast<double>(l.output<T>(0)[i]);
      for (const rt_post_op& post : posts) {
        const T* operand =
            post.operand < 0 ? nullptr : l.input<T>(static_cast<uint32_t>(post.operand));
        y = apply(post, y, operand, i, columns);
      }
      l.output<T>(0)[i] = static_cast<T>(y);
    }
  };
}

}  // namespace

Pass post_pass(const Operation& op, uint32_t first) {
  if (first >= op.post_op_count()) return nullptr;
  switch (op.output(0).dtype) {
    case RT_FLOAT32:
      return make_post_pass<float>(op, first);
    case RT_FLOAT64:
      return make_post_pass<double>(op, first);
    default:
      throw rt::sdk::Error(RT_ERROR_UNSUPPORTED, "the test double has no 16-bit passes");
  }
}

namespace {

// Sums of the columns of input `input` [rows, columns] as output 1.
template <typename T>
Pass column_pass(const rt_tensor_desc& matrix, uint32_t input, int64_t columns) {
  const int64_t count = element_count(matrix);
  return [=](const Launch& l) {
    std::vector<double> sums(static_cast<size_t>(columns));
    for (int64_t i = 0; i < count; ++i) {
      sums[static_cast<size_t>(i % columns)] += static_cast<double>(l.input<T>(input)[i]);
    }
    std::copy(sums.begin(), sums.end(), l.output<T>(1));
  };
}

}  // namespace

Pass bias_gradient_pass(const Operation& op, uint64_t* workspace_bytes) {
  if (op.input(1).dtype != RT_FLOAT32) {
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED, "the test double has this pass in float32 only");
  }
  *workspace_bytes = 0;
  return column_pass<float>(op.input(1), 1, element_count(op.output(1)));
}

Pass row_sum_pass(const Operation& op, uint64_t* workspace_bytes) {
  *workspace_bytes = 0;
  const int64_t columns = element_count(op.output(1));
  if (op.input(0).dtype == RT_FLOAT64) return column_pass<double>(op.input(0), 0, columns);
  if (op.input(0).dtype == RT_FLOAT32) return column_pass<float>(op.input(0), 0, columns);
  throw rt::sdk::Error(RT_ERROR_UNSUPPORTED, "the test double has no 16-bit passes");
}

}  // namespace backends::gpu
