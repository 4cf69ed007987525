#include "backends/gpu/columns.h"
#include "backends/gpu/passes.h"
#include "backends/gpu/post_ops.h"

namespace backends::gpu {
namespace {

template <typename T>
struct ApplyPostOps {
  T* y;
  int64_t columns;
  PostOps post;
  GPU_DEVICE void operator()(int64_t i) const {
    y[i] = static_cast<T>(post.apply<T>(static_cast<Compute<T>>(y[i]), i, i % columns));
  }
};

template <typename T>
struct StoreSum {
  T* sums;
  GPU_DEVICE void operator()(int64_t column, Compute<T> (&totals)[1]) const {
    sums[column] = static_cast<T>(totals[0]);
  }
};

// Sums of the columns of input `input`, of type T, as output 1, of type Out.
template <typename T, typename Out>
Pass column_pass(const rt_tensor_desc& matrix, uint32_t input, uint64_t* workspace_bytes,
                 const char* name) {
  using C = Compute<T>;
  const int64_t rows = row_count(matrix), columns = last_dim(matrix);
  *workspace_bytes = column_workspace<C>(rows, columns, 1);
  return [=](const Launch& l) {
    column_sums<C, 1>(l, rows, columns, static_cast<C*>(l.workspace),
                      ColumnOf<T>(l.input<T>(input), columns), StoreSum<Out>{l.output<Out>(1)},
                      name);
  };
}

}  // namespace

Pass post_pass(const Operation& op, uint32_t first) {
  if (first >= op.post_op_count()) return nullptr;
  rt_op_desc rest = op.desc();
  rest.post_ops += first;
  rest.post_op_count -= first;
  const PostPlan post{Operation(&rest)};
  const int64_t count = rt::sdk::element_count(op.output(0)), columns = last_dim(op.output(0));
  return for_floating(op.output(0).dtype, [&]<typename T>() -> Pass {
    return [=](const Launch& l) {
      for_each(l, count, ApplyPostOps<T>{l.output<T>(0), columns, post.bind(l)}, "post-operations");
    };
  });
}

Pass bias_gradient_pass(const Operation& op, uint64_t* workspace_bytes) {
  return for_floating(op.input(1).dtype, [&]<typename T>() {
    return column_pass<T, T>(op.input(1), 1, workspace_bytes, "conv2d_backward_weights");
  });
}

Pass row_sum_pass(const Operation& op, uint64_t* workspace_bytes) {
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    if constexpr (sizeof(T) == 2) {
      if (op.output(1).dtype == RT_FLOAT32)
        return column_pass<T, float>(op.input(0), 0, workspace_bytes, "matmul");
    }
    return column_pass<T, T>(op.input(0), 0, workspace_bytes, "matmul");
  });
}

}  // namespace backends::gpu
