// Poolings. Input and output may be in different image layouts: the kernels process runs of
// channels that lie within one block of either layout.
#include <algorithm>

#include "backends/cpu/native.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/post_chain.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

using kernels::Pixels;
using kernels::PoolShape;

// Pixels from `pixel` on of image n, for channels from `c` on that lie in one block of the layout.
template <typename T>
Pixels<T> pixels(T* base, const ImageView& v, int64_t n, int64_t c, int64_t pixel) {
  return {base + v.offset(n, c / v.block, pixel) + c % v.block, v.block};
}

int64_t piece(const ImageView& a, const ImageView& b) { return std::min(a.block, b.block); }

void zero_padding(float* row, const ImageView& v, int64_t block, int64_t pixels_in_row) {
  const int64_t used = v.c - block * v.block;  // channels of this block that exist
  if (used >= v.block) return;
  for (int64_t i = 0; i < pixels_in_row; ++i) {
    std::fill(row + i * v.block + used, row + (i + 1) * v.block, 0.0f);
  }
}

// Runs body(n, c, count, row) for every row of the image `target` and every run of channels, then
// the post-operations on the finished row. `other` is the view that is read.
template <typename Body>
void for_rows(const kernels::Table& kernel, int threads, const ImageView& target,
              const ImageView& other, const PostChain& chain, const rt_launch& launch,
              Body&& body) {
  float* base = output<float>(launch, 0);
  const int64_t step = piece(target, other);
  const int64_t row_elements = target.w * target.block;
  parallel_for(threads, target.n * target.blocks * target.h, kElementGrain / (row_elements + 1) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t unit = begin; unit < end; ++unit) {
                   const int64_t row = unit % target.h, block = unit / target.h % target.blocks;
                   const int64_t n = unit / target.h / target.blocks;
                   const int64_t last = std::min(target.c, (block + 1) * target.block);
                   for (int64_t c = block * target.block; c < last; c += step) {
                     body(n, c, std::min(step, last - c), row);
                   }
                   const int64_t offset = target.offset(n, block, row * target.w);
                   zero_padding(base + offset, target, block, target.w);
                   chain.apply(kernel, base + offset, offset, row_elements, launch.inputs);
                 }
               });
}

PoolShape read_shape(const Operation& op, const rt_tensor_desc& x, const rt_tensor_desc& y) {
  PoolShape shape;
  shape.window = pooling_window(op, x, y);
  shape.h = x.dims[1], shape.w = x.dims[2], shape.p = y.dims[1], shape.q = y.dims[2];
  shape.include_padding = op.integer(RT_ATTR_COUNT_INCLUDE_PAD, 1) != 0;
  return shape;
}

std::unique_ptr<Plan> make_avg_pool(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  const PoolShape shape = read_shape(op, op.input(0), op.output(0));
  const ImageView x = context.view(op, op.input(0)), y = context.view(op, op.output(0));
  const PostChain chain(op, context.engine.channel_order(op.output(0)));
  return make_plan(context, "native:avg_pool",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     for_rows(kernel, threads, y, x, chain, l,
                              [&](int64_t n, int64_t c, int64_t count, int64_t row) {
                                kernel.avg_pool_row(
                                    shape, pixels(input<float>(l, 0), x, n, c, 0), row,
                                    pixels(output<float>(l, 0), y, n, c, row * y.w), count);
                              });
                   });
}

std::unique_ptr<Plan> make_avg_pool_backward(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  const PoolShape shape = read_shape(op, op.output(0), op.input(0));
  const ImageView dy = context.view(op, op.input(0)), dx = context.view(op, op.output(0));
  const PostChain chain(op, context.engine.channel_order(op.output(0)));
  return make_plan(context, "native:avg_pool_backward",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     for_rows(kernel, threads, dx, dy, chain, l,
                              [&](int64_t n, int64_t c, int64_t count, int64_t row) {
                                kernel.avg_pool_backward_row(
                                    shape, pixels(input<float>(l, 0), dy, n, c, 0), row,
                                    pixels(output<float>(l, 0), dx, n, c, row * dx.w), count);
                              });
                   });
}

template <typename Index>
std::unique_ptr<Plan> make_max_pool_of(const NativeContext& context, const Operation& op) {
  const PoolShape shape = read_shape(op, op.input(0), op.output(0));
  const ImageView x = context.view(op, op.input(0)), y = context.view(op, op.output(0));
  const ImageView saved{y.n, y.h, y.w, y.c, y.c, 1};
  const PostChain chain(op, context.engine.channel_order(op.output(0)));
  auto plan = make_plan(
      context, "native:max_pool",
      [=, threads = context.engine.threads(),
       &kernel = context.engine.kernels()](const rt_launch& l) {
        const kernels::MaxPoolKernels<Index>& max_pool = kernel;
        for_rows(
            kernel, threads, y, x, chain, l, [&](int64_t n, int64_t c, int64_t count, int64_t row) {
              max_pool.max_pool_row(shape, pixels(input<float>(l, 0), x, n, c, 0), row,
                                    pixels(output<float>(l, 0), y, n, c, row * y.w),
                                    pixels(static_cast<Index*>(l.saved), saved, n, c, row * y.w),
                                    count);
            });
      });
  plan->edit().saved_bytes = static_cast<uint64_t>(saved.elements()) * sizeof(Index);
  return plan;
}

template <typename Index>
std::unique_ptr<Plan> make_max_pool_backward_of(const NativeContext& context, const Operation& op) {
  const PoolShape shape = read_shape(op, op.output(0), op.input(0));
  const ImageView dy = context.view(op, op.input(0)), dx = context.view(op, op.output(0));
  const ImageView saved{dy.n, dy.h, dy.w, dy.c, dy.c, 1};
  const PostChain chain(op, context.engine.channel_order(op.output(0)));
  return make_plan(context, "native:max_pool_backward",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     const kernels::MaxPoolKernels<Index>& max_pool = kernel;
                     for_rows(kernel, threads, dx, dy, chain, l,
                              [&](int64_t n, int64_t c, int64_t count, int64_t row) {
                                max_pool.max_pool_backward_row(
                                    shape, pixels(input<float>(l, 0), dy, n, c, 0),
                                    pixels(static_cast<const Index*>(l.saved), saved, n, c, 0), row,
                                    pixels(output<float>(l, 0), dx, n, c, row * dx.w), count);
                              });
                   });
}

bool small_window(const Operation& op) {
  return max_pool_saved_element_bytes(op.integer(RT_ATTR_KERNEL_H), op.integer(RT_ATTR_KERNEL_W)) ==
         1;
}

std::unique_ptr<Plan> make_max_pool(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  return small_window(op) ? make_max_pool_of<uint8_t>(context, op)
                          : make_max_pool_of<int32_t>(context, op);
}

std::unique_ptr<Plan> make_max_pool_backward(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  return small_window(op) ? make_max_pool_backward_of<uint8_t>(context, op)
                          : make_max_pool_backward_of<int32_t>(context, op);
}

void check_global(const Operation& op, const rt_tensor_desc& image, const rt_tensor_desc& vector) {
  if (image.rank == 4 && vector.rank == 2 && image.dims[0] == vector.dims[0] &&
      image.dims[3] == vector.dims[1]) {
    return;
  }
  op.fail("image " + rt::sdk::to_string(image) + " and vector " + rt::sdk::to_string(vector) +
          " must be [N,H,W,C] and [N,C]");
}

std::unique_ptr<Plan> make_global_avg_pool(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  check_global(op, op.input(0), op.output(0));
  const ImageView x = context.view(op, op.input(0));
  const PostChain chain(op, context.engine.channel_order(op.output(0)));
  return make_plan(context, "native:global_avg_pool",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     const float* source = input<float>(l, 0);
                     float* y = output<float>(l, 0);
                     const float factor = 1.0f / static_cast<float>(x.h * x.w);
                     parallel_for(threads, x.n, kElementGrain / (x.h * x.w * x.c + 1) + 1,
                                  [&](int64_t begin, int64_t end) {
                                    for (int64_t n = begin; n < end; ++n) {
                                      for (int64_t c = 0; c < x.c; c += x.block) {
                                        kernel.pixel_mean(pixels(source, x, n, c, 0), x.h * x.w,
                                                          factor, y + n * x.c + c,
                                                          std::min(x.block, x.c - c));
                                      }
                                      chain.apply(kernel, y + n * x.c, n * x.c, x.c, l.inputs);
                                    }
                                  });
                   });
}

std::unique_ptr<Plan> make_global_avg_pool_backward(const NativeContext& context,
                                                    const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  check_global(op, op.output(0), op.input(0));
  const ImageView dx = context.view(op, op.output(0));
  const PostChain chain(op, context.engine.channel_order(op.output(0)));
  const ImageView vector{dx.n, 1, 1, dx.c, dx.c, 1};
  return make_plan(context, "native:global_avg_pool_backward",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     const float factor = 1.0f / static_cast<float>(dx.h * dx.w);
                     for_rows(kernel, threads, dx, vector, chain, l,
                              [&](int64_t n, int64_t c, int64_t count, int64_t row) {
                                kernel.pixel_spread(
                                    input<float>(l, 0) + n * dx.c + c, factor,
                                    pixels(output<float>(l, 0), dx, n, c, row * dx.w), dx.w, count);
                              });
                   });
}

constexpr NativeKernel kKernels[] = {
    {RT_OP_AVG_POOL2D, LayoutRule::kPooling, make_avg_pool, NativeKernel::kFuses},
    {RT_OP_AVG_POOL2D_BACKWARD, LayoutRule::kPooling, make_avg_pool_backward, NativeKernel::kFuses},
    {RT_OP_MAX_POOL2D, LayoutRule::kPooling, make_max_pool, NativeKernel::kFuses},
    {RT_OP_MAX_POOL2D_BACKWARD, LayoutRule::kPooling, make_max_pool_backward, NativeKernel::kFuses},
    {RT_OP_GLOBAL_AVG_POOL, LayoutRule::kImageInput, make_global_avg_pool, NativeKernel::kFuses},
    {RT_OP_GLOBAL_AVG_POOL_BACKWARD, LayoutRule::kImageOutput, make_global_avg_pool_backward},
};

}  // namespace

KernelTable pooling_kernels() { return {kKernels, std::size(kKernels)}; }

}  // namespace backends::cpu
