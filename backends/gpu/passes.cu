// Kernels behind a library's call: post-operations that it has not fused, and sums over rows.
#include "backends/gpu/column_functions.h"
#include "backends/gpu/divisor.h"
#include "backends/gpu/fixed_posts.h"
#include "backends/gpu/passes.h"

namespace backends::gpu {
namespace {

// y = the post-operations of y, element by element. y and the operands are read once each.
template <typename T, typename Posts>
struct ApplyPosts : Stateless {
  const T* x;
  T* y;
  Divisor columns;
  Posts posts;
  ApplyPosts(const T* from, T* to, Divisor width, Posts list)
      : x(from), y(to), columns(width), posts(list) {}

  template <int N>
  struct Loaded {
    Pack<T, N> x;
    typename Posts::template Loaded<N> operands;
  };
  template <int N>
  GPU_DEVICE void load(int64_t i, Loaded<N>& loaded) const {
    loaded.x = gpu::load<N>(x + i);
    posts.template load<N>(i, loaded.operands);
  }
  template <int N>
  GPU_DEVICE void store(int64_t i, const Loaded<N>& loaded, NoState) const {
    Compute<T> values[N];
    widen<T, N>(loaded.x, values);
    const Place at{i, Posts::kUsesColumn ? columns.remainder(i) : 0, columns.value()};
    posts.template apply<N>(at, loaded.operands, values);
    gpu::store<N>(y + i, narrow<T, N>(values));
  }
};

template <int32_t kFunction, typename T>
using Activation = FixedPosts<T, Fixed<RT_POST_ACTIVATION, kFunction>>;
template <int32_t kFunction, typename T>
using Backward = FixedPosts<T, Fixed<RT_POST_ACTIVATION_BACKWARD, kFunction>>;
template <int32_t kFunction, typename T>
using BiasActivation = FixedPosts<T, Fixed<RT_POST_BIAS>, Fixed<RT_POST_ACTIVATION, kFunction>>;

// What is left of the post-operations of the models in configs/ when the libraries have fused what
// they can. In float64, which is for tests, every list is one of AnyPosts.
template <typename T>
struct Frequent {
  using Lists =
      PostLists<FixedPosts<T, Fixed<RT_POST_BIAS>>, FixedPosts<T, Fixed<RT_POST_RESIDUAL_ADD>>,
                FixedPosts<T, Fixed<RT_POST_BIAS>, Fixed<RT_POST_RESIDUAL_ADD>>,
                Activation<RT_ACTIVATION_RELU, T>, Activation<RT_ACTIVATION_GELU, T>,
                Activation<RT_ACTIVATION_GELU_TANH, T>, BiasActivation<RT_ACTIVATION_RELU, T>,
                BiasActivation<RT_ACTIVATION_GELU_TANH, T>, Backward<RT_ACTIVATION_RELU, T>,
                Backward<RT_ACTIVATION_GELU, T>, Backward<RT_ACTIVATION_GELU_TANH, T>,
                FixedPosts<T, Fixed<RT_POST_RESIDUAL_ADD>,
                           Fixed<RT_POST_ACTIVATION_BACKWARD, RT_ACTIVATION_RELU>>>;
};
template <>
struct Frequent<double> {
  using Lists = PostLists<>;
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
Pass column_pass(const Operation& op, uint32_t input, uint64_t* workspace_bytes, const char* name) {
  using C = Compute<T>;
  const rt_tensor_desc& matrix = op.input(input);
  const int64_t rows = row_count(matrix), columns = last_dim(matrix);
  *workspace_bytes = column_workspace<C>(op, rows, columns, 1);
  return [=](const Launch& l) {
    column_sums<C, 1>(l, rows, columns, static_cast<C*>(l.workspace),
                      ColumnOf<T>(l.input<T>(input), columns), StoreSum<Out>{l.output<Out>(1)},
                      name);
  };
}

// The operation with the post-operations from `first` on.
rt_op_desc rest_of(const Operation& op, uint32_t first) {
  rt_op_desc rest = op.desc();
  rest.post_ops += first;
  rest.post_op_count -= first;
  return rest;
}

}  // namespace

Pass post_pass(const Operation& op, uint32_t first) {
  if (first >= op.post_op_count()) return nullptr;
  const rt_op_desc rest = rest_of(op, first);
  const PostPlan post{Operation(&rest)};
  const int64_t count = rt::sdk::element_count(op.output(0));
  const Divisor columns(last_dim(op.output(0)));
  return for_floating(op.output(0).dtype, [&]<typename T>() -> Pass {
    return [=](const Launch& l) {
      const PostOps bound = post.bind(l);
      T* const y = l.output<T>(0);
      const bool vectors = aligned({y}) && aligned(bound);
      with_posts<T>(bound, typename Frequent<T>::Lists{}, [&]<typename Posts>(const Posts& posts) {
        for_vectors<kVector<T>>(l, count, vectors, ApplyPosts<T, Posts>(y, y, columns, posts),
                                "post-operations");
      });
    };
  });
}

Pass bias_gradient_pass(const Operation& op, uint64_t* workspace_bytes) {
  return for_floating(op.input(1).dtype, [&]<typename T>() {
    return column_pass<T, T>(op, 1, workspace_bytes, "conv2d_backward_weights");
  });
}

Pass row_sum_pass(const Operation& op, uint64_t* workspace_bytes) {
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    if constexpr (sizeof(T) == 2) {
      if (op.output(1).dtype == RT_FLOAT32)
        return column_pass<T, float>(op, 0, workspace_bytes, "matmul");
    }
    return column_pass<T, T>(op, 0, workspace_bytes, "matmul");
  });
}

}  // namespace backends::gpu
