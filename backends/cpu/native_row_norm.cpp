// Layer normalisation and root mean square normalisation: over the last dimension.
#include <algorithm>

#include "backends/cpu/native.h"
#include "backends/cpu/norm_operands.h"
#include "backends/cpu/parallel.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

// How rows are cut into pieces that are widened at a time.
struct RowPieces {
  int64_t columns, rows;  // rows of a piece
  bool narrow;
  explicit RowPieces(const Operation& op)
      : columns(last_dim(op.input(0))),
        rows(std::max<int64_t>(4096 / std::max<int64_t>(columns, 1), 1)),
        narrow(is_narrow(op)) {}
  int64_t buffer() const { return narrow ? rows * columns + 16 : 0; }
  // Calls body(first row, rows) for the pieces of rows begin..end; all of them are one piece if
  // nothing is widened.
  template <typename Body>
  void each(int64_t begin, int64_t end, Body&& body) const {
    if (!narrow) return body(begin, end - begin);
    for (int64_t r = begin; r < end; r += rows) body(r, std::min(rows, end - r));
  }
};

// What the two normalisations have of their own: floats that are saved for each row, and vectors of
// learned numbers, whose gradients follow dx.
struct LayerNorm {
  static constexpr const char *kForward = "native:layer_norm",
                              *kBackward = "native:layer_norm_backward";
  static constexpr uint32_t kSaved = 3, kVectors = 2;
  static void forward(const kernels::Table& kernel, const rt_launch& l, const float* x,
                      float epsilon, float* y, float* saved, int64_t rows, int64_t columns) {
    kernel.layer_norm_rows(x, input<float>(l, 1), input<float>(l, 2), epsilon, y, saved, rows,
                           columns);
  }
  static auto backward(const kernels::Table& kernel) { return kernel.layer_norm_backward_rows; }
};
struct RmsNorm {
  static constexpr const char *kForward = "native:rms_norm",
                              *kBackward = "native:rms_norm_backward";
  static constexpr uint32_t kSaved = 1, kVectors = 1;
  static void forward(const kernels::Table& kernel, const rt_launch& l, const float* x,
                      float epsilon, float* y, float* saved, int64_t rows, int64_t columns) {
    kernel.rms_norm_rows(x, input<float>(l, 1), epsilon, y, saved, rows, columns);
  }
  static auto backward(const kernels::Table& kernel) { return kernel.rms_norm_backward_rows; }
};

template <class Norm>
std::unique_ptr<Plan> make_row_norm(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1 + Norm::kVectors, 1);
  check_norm_types(op);
  expect_same_dims(op, op.input(0), op.output(0));
  const int64_t rows = row_count(op.input(0)), columns = last_dim(op.input(0));
  check_vectors(op, 1, 1 + Norm::kVectors, columns);
  const auto epsilon = static_cast<float>(op.number(RT_ATTR_EPSILON));
  const RowPieces pieces(op);
  const int threads = context.engine.threads();
  auto plan = make_plan(
      context, Norm::kForward, [=, &kernel = context.engine.kernels()](const rt_launch& l) {
        auto* saved = static_cast<float*>(l.saved);
        const Operand x(kernel, l.inputs[0], pieces.narrow), y(kernel, l.outputs[0], pieces.narrow);
        parallel_parts(threads, rows, kElementGrain / (columns + 1) + 1, 1,
                       [&](int part, int64_t begin, int64_t end) {
                         float* const buffer =
                             static_cast<float*>(l.workspace) + part * pieces.buffer();
                         pieces.each(begin, end, [&](int64_t b, int64_t count) {
                           float* const to = y.write(b * columns, buffer);
                           Norm::forward(kernel, l, x.read(b * columns, count * columns, buffer),
                                         epsilon, to, saved + Norm::kSaved * b, count, columns);
                           y.written(b * columns, count * columns, to, {}, l.inputs);
                         });
                       });
      });
  plan->edit().saved_bytes = static_cast<uint64_t>(Norm::kSaved * rows) * sizeof(float);
  plan->edit().workspace_bytes = static_cast<uint64_t>(threads * pieces.buffer()) * sizeof(float);
  plan->edit().in_place[0] = 0x1;
  return plan;
}

// Writes dx of rows begin..end, and adds the gradients of the vectors of them to `sums`. `buffers`
// has room for two pieces.
template <class Norm>
void row_norm_gradient(const kernels::Table& kernel, const RowPieces& pieces, const rt_launch& l,
                       int64_t begin, int64_t end, double* sums, float* buffers) {
  const bool narrow = pieces.narrow;
  const Operand dy(kernel, l.inputs[0], narrow), x(kernel, l.inputs[1], narrow),
      dx(kernel, l.outputs[0], narrow);
  const auto* saved = static_cast<const float*>(l.saved);
  pieces.each(begin, end, [&](int64_t b, int64_t rows) {
    const int64_t offset = b * pieces.columns, count = rows * pieces.columns;
    float* const to = dx.write(offset, buffers);
    Norm::backward(kernel)(dy.read(offset, count, buffers),
                           x.read(offset, count, buffers + pieces.buffer()), input<float>(l, 2),
                           saved + Norm::kSaved * b, to, sums, rows, pieces.columns);
    dx.written(offset, count, to, {}, l.inputs);
  });
}

template <class Norm>
std::unique_ptr<Plan> make_row_norm_backward(const NativeContext& context, const Operation& op) {
  expect_counts(op, 3, 1 + Norm::kVectors);
  check_norm_types(op);
  expect_same_dims(op, op.input(0), op.output(0));
  expect_same_dims(op, op.input(1), op.output(0));
  const int64_t rows = row_count(op.input(0)), columns = last_dim(op.input(0));
  check_vectors(op, 2, 3, columns);
  const int threads = context.engine.threads();
  const RowPieces pieces(op);
  const int64_t width = Norm::kVectors * columns;  // of the sums of a thread
  auto plan = make_plan(
      context, Norm::kBackward, [=, &kernel = context.engine.kernels()](const rt_launch& l) {
        auto* sums = static_cast<double*>(l.workspace);
        auto* buffers = reinterpret_cast<float*>(sums + threads * width);
        std::fill(sums, sums + threads * width, 0.0);
        parallel_parts(threads, rows, kElementGrain / (columns + 1) + 1, 1,
                       [&](int part, int64_t b, int64_t e) {
                         row_norm_gradient<Norm>(kernel, pieces, l, b, e, sums + part * width,
                                                 buffers + part * 2 * pieces.buffer());
                       });
        for (int part = 1; part < threads; ++part) {
          for (int64_t c = 0; c < width; ++c) sums[c] += sums[part * width + c];
        }
        for (uint32_t v = 0; v < Norm::kVectors; ++v) {
          for (int64_t c = 0; c < columns; ++c)
            output<float>(l, 1 + v)[c] = static_cast<float>(sums[v * columns + c]);
        }
      });
  plan->edit().workspace_bytes =
      static_cast<uint64_t>(threads * width) * sizeof(double) +
      static_cast<uint64_t>(threads * 2 * pieces.buffer()) * sizeof(float);
  plan->edit().in_place[0] = 0x3;
  return plan;
}

constexpr NativeKernel kRowNormKernels[] = {
    {RT_OP_LAYER_NORM, LayoutRule::kCanonical, make_row_norm<LayerNorm>, NativeKernel::kBfloat16},
    {RT_OP_LAYER_NORM_BACKWARD, LayoutRule::kCanonical, make_row_norm_backward<LayerNorm>,
     NativeKernel::kBfloat16},
    {RT_OP_RMS_NORM, LayoutRule::kCanonical, make_row_norm<RmsNorm>, NativeKernel::kBfloat16},
    {RT_OP_RMS_NORM_BACKWARD, LayoutRule::kCanonical, make_row_norm_backward<RmsNorm>,
     NativeKernel::kBfloat16},
};

}  // namespace

KernelTable row_norm_kernels() { return {kRowNormKernels, std::size(kRowNormKernels)}; }

}  // namespace backends::cpu
