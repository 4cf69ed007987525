// The frequent lists of post-operations, each known when the kernel is compiled.
#ifndef BACKENDS_GPU_FIXED_POSTS_H_
#define BACKENDS_GPU_FIXED_POSTS_H_

#include <type_traits>

#include "backends/gpu/post_ops.h"

namespace backends::gpu {

// One post-operation other than RT_POST_STORE.
template <int32_t kKindOf, int32_t kFunctionOf = 0>
struct Fixed {
  static constexpr int32_t kKind = kKindOf, kFunction = kFunctionOf;
  // Does it read an operand with the shape of the result?
  static constexpr bool kReads =
      kKind == RT_POST_RESIDUAL_ADD || kKind == RT_POST_ACTIVATION_BACKWARD;
  static bool is(const PostOps::Step& step) {
    const bool has_function = kKind == RT_POST_ACTIVATION || kKind == RT_POST_ACTIVATION_BACKWARD;
    return step.kind == kKind && (!has_function || step.function == kFunction);
  }
};

// A list of post-operations with the addresses of a launch. A kernel first loads its operands, so
// that these loads and its own are under way together, and then applies it.
template <typename T, typename... Posts>
struct FixedPosts {
  const T* operands[sizeof...(Posts)];

  explicit FixedPosts(const PostOps& bound) {
    for (size_t i = 0; i < sizeof...(Posts); ++i) {
      operands[i] = static_cast<const T*>(bound.steps[i].operand);
    }
  }
  static bool match(const PostOps& bound) {
    int i = 0;
    return bound.count == static_cast<int32_t>(sizeof...(Posts)) &&
           (Posts::is(bound.steps[i++]) && ...);
  }

  static constexpr bool kUsesColumn = ((Posts::kKind == RT_POST_BIAS) || ...);
  template <int N>
  struct Loaded {
    Pack<T, N> operands[sizeof...(Posts)];
  };
  template <int N>
  GPU_DEVICE void load(int64_t index, Loaded<N>& loaded) const {
    int i = 0;
    (load_one<Posts, N>(operands[i], index, loaded.operands[i], i), ...);
  }
  template <int N>
  GPU_DEVICE void apply(const Place& at, const Loaded<N>& loaded, Compute<T> (&y)[N]) const {
    int i = 0;
    (apply_one<Posts, N>(operands[i], at, loaded.operands[i], y, i), ...);
  }

 private:
  template <typename Post, int N>
  GPU_DEVICE static void load_one(const T* operand, int64_t index, Pack<T, N>& to, int& i) {
    if constexpr (Post::kReads) to = gpu::load<N>(operand + index);
    ++i;
  }
  template <typename Post, int N>
  GPU_DEVICE static void apply_one(const T* operand, const Place& at, const Pack<T, N>& from,
                                   Compute<T> (&y)[N], int& i) {
    if constexpr (Post::kKind == RT_POST_BIAS) {
      add_bias<T, N>(operand, at, y);
    } else if constexpr (Post::kKind == RT_POST_ACTIVATION) {
      activate_all<Post::kFunction, T, N>(y);
    } else {
      Compute<T> other[N];
      widen<T, N>(from, other);
      if constexpr (Post::kKind == RT_POST_ACTIVATION_BACKWARD) {
        activate_all_backward<Post::kFunction, T, N>(y, other);
      } else {
        GPU_UNROLL
        for (int k = 0; k < N; ++k) y[k] += other[k];
      }
    }
    ++i;
  }
};

// No post-operation, and any post-operations, in the same form.
struct NoPosts {
  static constexpr bool kUsesColumn = false;
  template <int N>
  struct Loaded {};
  template <int N>
  GPU_DEVICE void load(int64_t, Loaded<N>&) const {}
  template <int N, typename C>
  GPU_DEVICE void apply(const Place&, const Loaded<N>&, C (&)[N]) const {}
};
template <typename T>
struct AnyPosts {
  PostOps posts;
  static constexpr bool kUsesColumn = true;
  template <int N>
  struct Loaded {};
  template <int N>
  GPU_DEVICE void load(int64_t, Loaded<N>&) const {}
  template <int N>
  GPU_DEVICE void apply(const Place& at, const Loaded<N>&, Compute<T> (&y)[N]) const {
    posts.apply<T, N>(at, y);
  }
};

template <typename... Lists>
struct PostLists {};

// Calls body(posts) with the first list that matches, or else with AnyPosts.
template <typename T, typename Body>
void with_posts(const PostOps& bound, PostLists<>, Body&& body) {
  body(AnyPosts<T>{bound});
}
template <typename T, typename First, typename... Rest, typename Body>
void with_posts(const PostOps& bound, PostLists<First, Rest...>, Body&& body) {
  if (First::match(bound)) return body(First(bound));
  with_posts<T>(bound, PostLists<Rest...>{}, body);
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_FIXED_POSTS_H_
