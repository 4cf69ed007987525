// The post-operations that follow normalisations in most models, in a form that adds a vector at a
// time: a residual add and a relu, of which either may be missing. Others take RuntimePosts.
#ifndef BACKENDS_GPU_RESIDUAL_RELU_H_
#define BACKENDS_GPU_RESIDUAL_RELU_H_

#include "backends/gpu/post_ops.h"
#include "backends/gpu/vectors.h"

namespace backends::gpu {

// Kernels call load() for all their elements before they call apply(), so that these loads and
// their own are under way together.
template <typename T>
struct ResidualRelu {
  const T* residual = nullptr;
  bool relu = false;

  // Sets `posts` and returns true if these are the post-operations.
  static bool match(const PostOps& bound, ResidualRelu& posts) {
    posts = {};
    int32_t i = 0;
    if (i < bound.count && bound.steps[i].kind == RT_POST_RESIDUAL_ADD)
      posts.residual = static_cast<const T*>(bound.steps[i++].operand);
    if (i < bound.count && bound.steps[i].kind == RT_POST_ACTIVATION &&
        bound.steps[i].function == RT_ACTIVATION_RELU) {
      posts.relu = true;
      ++i;
    }
    return i == bound.count;
  }

  template <int V>
  struct Loaded {
    Pack<T, V> residual;
  };
  template <int V>
  GPU_DEVICE void load(int64_t index, Loaded<V>& loaded) const {
    loaded.residual = residual ? gpu::load<V>(residual + index) : Pack<T, V>{};
  }
  template <int V, typename C>
  GPU_DEVICE void apply(int64_t, int64_t, const Loaded<V>& loaded, C (&y)[V]) const {
    for (int v = 0; v < V; ++v) {
      if (residual) y[v] += static_cast<C>(loaded.residual.value[v]);
      if (relu) y[v] = y[v] <= C(0) ? C(0) : y[v];  // NaN stays NaN
    }
  }
};

// Any post-operations.
template <typename T>
struct RuntimePosts {
  PostOps posts;
  template <int V>
  struct Loaded {};
  template <int V>
  GPU_DEVICE void load(int64_t, Loaded<V>&) const {}
  template <int V, typename C>
  GPU_DEVICE void apply(int64_t index, int64_t column, const Loaded<V>&, C (&y)[V]) const {
    posts.template apply<T, V>(Place{index, column, V}, y);  // all V columns lie in one row
  }
};

// Calls body(posts) with the form that the post-operations of a launch take.
template <typename T, typename Body>
void with_residual_relu(const PostOps& bound, Body&& body) {
  ResidualRelu<T> posts;
  if (ResidualRelu<T>::match(bound, posts)) return body(posts);
  body(RuntimePosts<T>{bound});
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_RESIDUAL_RELU_H_
