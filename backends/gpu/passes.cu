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
  const int64_t rows = row_count(op.input(1)), columns = last_dim(op.input(1));
  return for_floating(op.input(1).dtype, [&]<typename T>() -> Pass {
    using C = Compute<T>;
    *workspace_bytes = column_workspace<C>(rows, columns, 1);
    return [=](const Launch& l) {
      column_sums<C, 1>(l, rows, columns, static_cast<C*>(l.workspace),
                        ColumnOf<T>(l.input<T>(1), columns), StoreSum<T>{l.output<T>(1)},
                        "conv2d_backward_weights");
    };
  });
}

}  // namespace backends::gpu
