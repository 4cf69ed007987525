// From operations to kernels. Shapes and attributes are read by the helpers of the SDK.
#include "rt/operations.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "plan.h"
#include "rt/sdk/broadcast.h"
#include "rt/sdk/convolution.h"
#include "rt/sdk/elementwise.h"
#include "rt/sdk/embedding.h"
#include "rt/sdk/losses.h"
#include "rt/sdk/matmul.h"
#include "rt/sdk/pooling.h"
#include "rt/sdk/reduction.h"
#include "rt/sdk/strided.h"
#include "rt/sdk/updates.h"

namespace {

constexpr int64_t kPanel = 16, kTileRows = 8;  // COLUMNS and ROWS of product.cl

// Work items for the columns of `rows` rows; groups that waste few items on narrow rows.
Items grid(int64_t columns, int64_t rows, int64_t batch = 1) {
  if (columns >= 256 || columns % 64 == 0) return {columns, rows, batch};
  return {columns, rows, batch, {4, 16, 1}};
}

int64_t element_bytes(const rt_plan& p) { return p.real == RT_FLOAT64 ? 8 : 4; }
int64_t panels(int64_t columns) { return (columns + kPanel - 1) / kPanel; }

std::string activation_kernel(const rt_plan& p, int64_t function) {
  return std::string(p.op.name()) + "_" + std::to_string(function);
}

void activation(rt_plan& p) {
  const auto [count, function] = rt::sdk::activation_shape(p.op, p.real);
  p.in_place[0] = 0b1;
  p.run(activation_kernel(p, function).c_str(), {count}, {p.in(0), p.out(0)}, count);
}

void activation_backward(rt_plan& p) {
  const auto [count, function] = rt::sdk::activation_backward_shape(p.op, p.real);
  p.in_place[0] = 0b11;
  p.run(activation_kernel(p, function).c_str(), {count}, {p.in(0), p.in(1), p.out(0)}, count);
}

void arithmetic(rt_plan& p) {
  const rt::sdk::BroadcastShape s = rt::sdk::broadcast_shape(p.op, p.real);
  const auto walk = rt::sdk::merge_dims<2>(s.dims, {s.a, s.b});
  p.in_place[0] = s.in_place;
  const int64_t columns = walk.dims[walk.rank - 1];
  const int64_t rows = columns > 0 ? rt::sdk::product(s.dims) / columns : 0;
  p.run(p.op.desc().name, grid(columns, rows), {p.in(0), p.in(1), p.out(0)}, rows, walk);
}

void scale(rt_plan& p) {
  const int64_t count = rt::sdk::unary_count(p.op, p.real);
  p.in_place[0] = 0b1;
  p.run("scale", {count}, {p.in(0), p.out(0)}, count, Real{p.op.number(RT_ATTR_ALPHA, 1.0)},
        Real{p.op.number(RT_ATTR_BETA, 0.0)});
}

void copy(rt_plan& p) {
  const rt_dtype dtype = p.op.input(0).dtype;
  const int64_t count = rt::sdk::unary_count(p.op, dtype);
  const std::string kernel = "copy_" + std::to_string(rt::sdk::dtype_bytes(dtype));
  p.run(kernel.c_str(), {count}, {p.in(0), p.out(0)}, count);
}

void fill(rt_plan& p) {
  rt::sdk::expect_counts(p.op, 0, 1);
  p.real = p.op.output(0).dtype;
  if ((p.device.dtypes & RT_DTYPE_BIT(p.real)) == 0)
    rt::sdk::refuse_output(p.op, 0, "y", "float32 is filled, and float64 where the device has it");
  const int64_t count = rt::sdk::element_count(p.op.output(0));
  p.run("fill", {count}, {p.out(0)}, count, Real{p.op.number(RT_ATTR_VALUE, 0.0)});
}

void sgd(rt_plan& p) {
  const rt::sdk::SgdUpdate s = rt::sdk::sgd_update(p.op, p.real);
  if (s.writes_narrow)
    rt::sdk::refuse_output(p.op, 1 + s.states, "narrow", "a copy in 16 bits is not written");
  p.in_place = {0b1, 0b10000};
  const Real decay{s.weight_decay};
  if (s.states == 0)
    return p.run("sgd", {s.count}, {p.in(0), p.in(1), p.in(2), p.in(3), p.out(0)}, s.count, decay);
  p.run("sgd_momentum", {s.count},
        {p.in(0), p.in(1), p.in(2), p.in(3), p.in(4), p.out(0), p.out(1)}, s.count, decay,
        Real{s.momentum}, int64_t{s.nesterov});
}

// Adds the second half of a sum: slices in WIDE of each result.
void add_slices(rt_plan& p, Operand sums, Operand y, int64_t results, int64_t slices,
                double divisor = 1, int64_t is_max = 0) {
  p.run("reduce_sums", {results}, {sums, y}, results, slices, Real{divisor}, is_max);
}

// Sums up the elements along the dims `reduced` of a tensor, for each element along `kept`. Both
// are walks over the tensor. A result with many elements is cut into slices of at least 64.
void add_reduction(rt_plan& p, Operand x, Operand y, const rt::sdk::Strided<2>& kept,
                   const rt::sdk::Strided<2>& reduced, int64_t results, int64_t count,
                   int64_t function) {
  const int64_t most = std::max<int64_t>(1, 4096 / std::max<int64_t>(results, 1));
  const int64_t slices = std::clamp<int64_t>(count / 64, 1, most);
  const int64_t is_max = function == RT_REDUCE_MAX;
  const Operand sums = p.scratch(results * slices * 8);
  p.run("reduce_slices", {results, slices}, {x, sums}, kept, reduced, results, slices, count,
        is_max);
  add_slices(p, sums, y, results, slices,
             function == RT_REDUCE_MEAN ? static_cast<double>(count) : 1, is_max);
}

void reduce(rt_plan& p) {
  const rt::sdk::ReductionShape s = rt::sdk::reduction_shape(p.op, p.real);
  const rt::sdk::Dims strides = rt::sdk::strides_of(s.input);
  rt::sdk::Dims dims[2], steps[2];  // of the axes that are kept and of those that are reduced
  for (size_t d = 0; d < s.input.size(); ++d) {
    const int64_t reduced = s.axes >> d & 1;
    dims[reduced].push_back(s.input[d]);
    steps[reduced].push_back(strides[d]);
  }
  add_reduction(p, p.in(0), p.out(0), rt::sdk::merge_dims<2>(dims[0], {steps[0], steps[0]}),
                rt::sdk::merge_dims<2>(dims[1], {steps[1], steps[1]}), s.results, s.reduced,
                s.function);
}

// Sums up the rows of a matrix.
void add_column_sums(rt_plan& p, Operand x, Operand y, int64_t rows, int64_t columns) {
  const rt::sdk::Dims one = {1}, step = {columns};
  add_reduction(p, x, y, rt::sdk::merge_dims<2>({columns}, {one, one}),
                rt::sdk::merge_dims<2>({rows}, {step, step}), columns, rows, RT_REDUCE_SUM);
}

// cross_entropy and correct_count: a number for each row, and the sum of these.
void sum_over_rows(rt_plan& p) {
  const auto [rows, width] = rt::sdk::loss_shape(p.op, p.real, rt::sdk::class_rows);
  const Operand terms = p.scratch(rows * 8);
  p.run(p.op.desc().name, {rows}, {p.in(0), p.in(1), p.in(2), terms}, rows, width);
  add_slices(p, terms, p.out(0), 1, rows);
}

void cross_entropy_backward(rt_plan& p) {
  const auto [rows, width] =
      rt::sdk::loss_backward_shape(p.op, p.real, rt::sdk::class_rows, "dlogits");
  p.run("cross_entropy_backward", {rows}, {p.in(0), p.in(1), p.in(2), p.in(3), p.out(0)}, rows,
        width);
}

// Without first_row, -1, the indices are those of a whole table.
void embedding(rt_plan& p) {
  const auto s = rt::sdk::embedding_shape(p.op, p.real);
  p.run("embedding", grid(s.width, s.count), {p.in(0), p.in(1), p.out(0)}, s.width, s.count, s.rows,
        std::max<int64_t>(0, s.first_row));
}

void embedding_backward(rt_plan& p) {
  const auto s = rt::sdk::embedding_backward_shape(p.op, p.real);
  const Operand starts = p.scratch((s.rows + 1) * 4), order = p.scratch(s.count * 4);
  p.run("sort_indices", {1, 1, 1, {1, 1, 1}}, {p.in(0), starts, order}, s.count, s.rows,
        std::max<int64_t>(0, s.first_row));
  p.run("embedding_backward", grid(s.width, s.rows), {p.in(1), starts, order, p.out(0)}, s.width,
        s.rows);
}

// The structs of product.cl and window.cl.
struct Matrix {
  int64_t rows, columns, row_step, column_step, batch_step;
};
struct Product {
  int64_t m, n, k, a_row, a_column, a_batch, panels_batch, c_row, c_batch;
};
using Geometry = std::array<int32_t, 15>;

// Kernels count pixels, and the elements of one pixel's window, in 32 bits, which divide faster.
template <typename Shape>
Geometry geometry(const rt_plan& p, const Shape& s, int64_t group_channels) {
  const rt::sdk::Window& w = s.window;
  const int64_t numbers[] = {s.h,        s.w,          s.c,          s.p,        s.q,
                             w.kernel_h, w.kernel_w,   w.stride_h,   w.stride_w, w.pad_top,
                             w.pad_left, w.dilation_h, w.dilation_w, s.n,        group_channels};
  const int64_t most = std::max({s.n * s.h * s.w, s.n * s.p * s.q, w.kernel_h * w.kernel_w * s.c,
                                 w.kernel_h * w.dilation_h, w.kernel_w * w.dilation_w});
  if (most + kPanel > std::numeric_limits<int32_t>::max())
    rt::sdk::refuse(p.op, "images of 2^31 pixels; use smaller batches");
  Geometry result;
  std::copy(std::begin(numbers), std::end(numbers), result.begin());
  return result;
}

// c = a times panels. Groups are small on processors, where each is one thread's.
void add_product(rt_plan& p, Operand a, Operand packed, Operand c, int64_t batch,
                 const Product& s) {
  const bool cpu = info<cl_device_type>(p.device.id, CL_DEVICE_TYPE) == CL_DEVICE_TYPE_CPU;
  const Items items{panels(s.n), (s.m + kTileRows - 1) / kTileRows, batch,
                    cpu ? std::array<size_t, 3>{1, 4, 1} : std::array<size_t, 3>{4, 16, 1}};
  p.run("product", items, {a, packed, c}, s);
}

// Packs b as panels. A batch step of 0 means that all products have the same b.
Operand add_pack(rt_plan& p, Operand b, const Matrix& m, int64_t batch) {
  const int64_t copies = m.batch_step == 0 ? 1 : batch;
  const Operand packed = p.scratch(copies * panels(m.columns) * kPanel * m.rows * element_bytes(p));
  p.run("pack", {panels(m.columns) * kPanel, m.rows, copies}, {b, packed}, m);
  return packed;
}

void matmul(rt_plan& p) {
  const rt::sdk::MatmulShape s = rt::sdk::matmul_shape(p.op, p.real);
  const Matrix b{s.k, s.n, s.transpose_b ? 1 : s.n, s.transpose_b ? s.k : 1,
                 s.b_has_batch ? s.k * s.n : 0};
  const Operand packed = add_pack(p, p.in(1), b, s.batch);
  add_product(p, p.in(0), packed, p.out(0), s.batch,
              {s.m, s.n, s.k, s.transpose_a ? 1 : s.k, s.transpose_a ? s.m : 1, s.m * s.k,
               s.b_has_batch ? panels(s.n) * kPanel * s.k : 0, s.n, s.m * s.n});
  if (s.sums_rows) add_column_sums(p, p.in(0), p.out(1), s.k, s.m);
}

// The elements of x that each pixel of the result and each group reads, in panels of `width`.
Operand add_patches(rt_plan& p, Operand x, const rt::sdk::ConvolutionShape& s, int64_t width) {
  const int64_t columns = (s.patch() + width - 1) / width * width, rows = s.n * s.pixels();
  const Operand patches = p.scratch(s.groups * rows * columns * element_bytes(p));
  p.run("gather_patches", grid((columns + s.cg - 1) / s.cg, rows, s.groups), {x, patches},
        geometry(p, s, s.cg), static_cast<int32_t>(width));
  return patches;
}

// y = patches w^T
void conv2d(rt_plan& p) {
  const auto s = rt::sdk::conv2d_shape(p.op, p.real);
  const int64_t rows = s.n * s.pixels(), patch = s.patch();
  const Operand patches = add_patches(p, p.in(0), s, patch);
  const Operand w = add_pack(p, p.in(1), {patch, s.og, 1, patch, s.og * patch}, s.groups);
  add_product(
      p, patches, w, p.out(0), s.groups,
      {rows, s.og, patch, patch, 1, rows * patch, panels(s.og) * kPanel * patch, s.o, s.og});
}

// dpatches = dy w, added up in dx
void conv2d_backward_data(rt_plan& p) {
  const auto s = rt::sdk::conv2d_backward_data_shape(p.op, p.real);
  const int64_t rows = s.n * s.pixels(), patch = s.patch();
  const Operand patches = p.scratch(s.groups * rows * patch * element_bytes(p));
  const Operand w = add_pack(p, p.in(1), {s.og, patch, patch, 1, s.og * patch}, s.groups);
  add_product(
      p, p.in(0), w, patches, s.groups,
      {rows, patch, s.og, s.o, 1, s.og, panels(patch) * kPanel * s.og, patch, rows * patch});
  p.run("scatter_patches", grid(s.c, s.n * s.h * s.w), {patches, p.out(0)}, geometry(p, s, s.cg));
}

// dw = dy^T patches
void conv2d_backward_weights(rt_plan& p) {
  const auto s = rt::sdk::conv2d_backward_weights_shape(p.op, p.real);
  const int64_t rows = s.n * s.pixels(), patch = s.patch();
  const Operand patches = add_patches(p, p.in(0), s, kPanel);
  add_product(
      p, p.in(1), patches, p.out(0), s.groups,
      {s.og, patch, rows, 1, s.o, s.og, panels(patch) * kPanel * rows, patch, s.og * patch});
  if (p.op.output_count() == 2) add_column_sums(p, p.in(1), p.out(1), rows, s.o);
}

// Both poolings keep, for each result, the number of its maximum within the window.
void max_pool2d(rt_plan& p) {
  const auto s = rt::sdk::pooling_forward_shape(p.op, p.real);
  p.run("max_pool2d", grid(s.c, s.n * s.p * s.q),
        {p.in(0), p.out(0), p.saves(s.n * s.result() * 4)}, geometry(p, s, s.c));
}

void max_pool2d_backward(rt_plan& p) {
  const auto s = rt::sdk::pooling_backward_shape(p.op, p.real);
  const Operand saved = p.saved_by(p.op.desc().forward, s.n * s.result() * 4);
  p.run("max_pool2d_backward", grid(s.c, s.n * s.h * s.w), {p.in(0), saved, p.out(0)},
        geometry(p, s, s.c));
}

void avg_pool2d(rt_plan& p) {
  const auto s = rt::sdk::pooling_forward_shape(p.op, p.real);
  p.run("avg_pool2d", grid(s.c, s.n * s.p * s.q), {p.in(0), p.out(0)}, geometry(p, s, s.c),
        int32_t{s.count_include_pad});
}

void avg_pool2d_backward(rt_plan& p) {
  const auto s = rt::sdk::pooling_backward_shape(p.op, p.real);
  p.run("avg_pool2d_backward", grid(s.c, s.n * s.h * s.w), {p.in(0), p.out(0)}, geometry(p, s, s.c),
        int32_t{s.count_include_pad});
}

struct Rule {
  void (*add)(rt_plan&);
  uint32_t typed = 0;  // the input whose type the operation computes in
};

}  // namespace

void add_kernels(rt_plan& p) {
  static const std::map<std::string_view, Rule> rules = {
      {RT_OP_MATMUL, {matmul}},
      {RT_OP_CONV2D, {conv2d}},
      {RT_OP_CONV2D_BACKWARD_DATA, {conv2d_backward_data}},
      {RT_OP_CONV2D_BACKWARD_WEIGHTS, {conv2d_backward_weights}},
      {RT_OP_MAX_POOL2D, {max_pool2d}},
      {RT_OP_MAX_POOL2D_BACKWARD, {max_pool2d_backward}},
      {RT_OP_AVG_POOL2D, {avg_pool2d}},
      {RT_OP_AVG_POOL2D_BACKWARD, {avg_pool2d_backward}},
      {RT_OP_ACTIVATION, {activation}},
      {RT_OP_ACTIVATION_BACKWARD, {activation_backward}},
      {RT_OP_ADD, {arithmetic}},
      {RT_OP_SUBTRACT, {arithmetic}},
      {RT_OP_MULTIPLY, {arithmetic}},
      {RT_OP_DIVIDE, {arithmetic}},
      {RT_OP_SCALE, {scale}},
      {RT_OP_REDUCE, {reduce}},
      {RT_OP_CROSS_ENTROPY, {sum_over_rows}},
      {RT_OP_CROSS_ENTROPY_BACKWARD, {cross_entropy_backward}},
      {RT_OP_CORRECT_COUNT, {sum_over_rows}},
      {RT_OP_EMBEDDING, {embedding, 1}},
      {RT_OP_EMBEDDING_BACKWARD, {embedding_backward, 1}},
      {RT_OP_COPY, {copy}},
      {RT_OP_FILL, {fill}},
      {RT_OP_SGD, {sgd}},
  };
  const auto rule = rules.find(p.op.name());
  if (rule == rules.end())
    rt::sdk::refuse(p.op, "there is no kernel for it; the host composes it from others");
  // copy takes any type; fill has no input.
  if (!p.op.is(RT_OP_COPY) && !p.op.is(RT_OP_FILL))
    p.real = rt::sdk::computed_type(p.op, rule->second.typed, "x", p.device.dtypes);
  rule->second.add(p);
}
