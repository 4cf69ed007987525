// Softmax, losses and the count of correct answers. Rows are vectors of the last dimension.
#include <algorithm>

#include "backends/cpu/native.h"
#include "backends/cpu/parallel.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

// The least number of rows for which a parallel region pays, if a row costs about `columns`
// exponentials.
int64_t row_grain(int64_t columns) { return kElementGrain / 4 / (columns + 1) + 1; }

// These are sums over rows.
struct Sums {
  double loss = 0, correct = 0;
};

// The sums of one thread, in a cache line of their own. They are added in the order of the threads.
struct alignas(64) Partial {
  Sums sums;
};
uint64_t partial_bytes(int threads) { return static_cast<uint64_t>(threads) * sizeof(Partial); }

// Cuts 0..rows into ranges for the threads and returns the sum of body(begin, end) over the ranges.
template <typename Body>
Sums sum_parts(int threads, int64_t rows, int64_t grain, void* workspace, Body&& body) {
  auto* const partials = static_cast<Partial*>(workspace);
  for (int i = 0; i < threads; ++i) partials[i].sums = {};
  parallel_parts(threads, rows, grain, 1, [&](int part, int64_t begin, int64_t end) {
    partials[part].sums = body(begin, end);
  });
  Sums total;
  for (int i = 0; i < threads; ++i) {
    total.loss += partials[i].sums.loss;
    total.correct += partials[i].sums.correct;
  }
  return total;
}

using UnaryRows = void (*)(const float*, float*, int64_t, int64_t);
using BinaryRows = void (*)(const float*, const float*, float*, int64_t, int64_t);

std::unique_ptr<Plan> make_softmax(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  expect_same_dims(op, op.input(0), op.output(0));
  const int64_t rows = row_count(op.input(0)), columns = last_dim(op.input(0));
  const kernels::Table& kernel = context.engine.kernels();
  const UnaryRows run = op.is(RT_OP_SOFTMAX) ? kernel.softmax_rows : kernel.log_softmax_rows;
  auto plan = make_plan(
      context, "native:softmax", [=, threads = context.engine.threads()](const rt_launch& l) {
        parallel_for(threads, rows, row_grain(columns), [&](int64_t b, int64_t e) {
          run(input<float>(l, 0) + b * columns, output<float>(l, 0) + b * columns, e - b, columns);
        });
      });
  plan->edit().in_place[0] = 0x1;
  return plan;
}

std::unique_ptr<Plan> make_softmax_backward(const NativeContext& context, const Operation& op) {
  expect_counts(op, 2, 1);
  expect_float(op);
  expect_same_dims(op, op.input(0), op.output(0));
  expect_same_dims(op, op.input(1), op.output(0));
  const int64_t rows = row_count(op.input(0)), columns = last_dim(op.input(0));
  const kernels::Table& kernel = context.engine.kernels();
  const BinaryRows run = op.is(RT_OP_SOFTMAX_BACKWARD) ? kernel.softmax_backward_rows
                                                       : kernel.log_softmax_backward_rows;
  auto plan =
      make_plan(context, "native:softmax_backward",
                [=, threads = context.engine.threads()](const rt_launch& l) {
                  parallel_for(threads, rows, row_grain(columns), [&](int64_t b, int64_t e) {
                    run(input<float>(l, 0) + b * columns, input<float>(l, 1) + b * columns,
                        output<float>(l, 0) + b * columns, e - b, columns);
                  });
                });
  plan->edit().in_place[0] = 0x3;
  return plan;
}

// Checks the operands logits, labels and weight, which come first in `inputs` operands. Returns the
// number of rows.
int64_t check_classes(const Operation& op, uint32_t inputs, uint32_t outputs = 1) {
  expect_counts(op, inputs, outputs);
  const int64_t rows = row_count(op.input(0));
  expect_dtype(op, op.input(0), RT_FLOAT32, "logits");
  expect_dtype(op, op.input(1), RT_INT32, "labels");
  expect_dtype(op, op.input(2), RT_FLOAT32, "weight");
  expect_elements(op, op.input(1), rows, "labels");
  expect_elements(op, op.input(2), rows, "weight");
  for (uint32_t i = 0; i < outputs; ++i) {
    expect_dtype(op, op.output(i), RT_FLOAT32, ("output " + std::to_string(i)).c_str());
  }
  if (last_dim(op.input(0)) < 1) op.fail("logits need at least one class");
  return rows;
}

std::unique_ptr<Plan> make_cross_entropy(const NativeContext& context, const Operation& op) {
  const int64_t rows = check_classes(op, 3), columns = last_dim(op.input(0));
  expect_elements(op, op.output(0), 1, "loss");
  auto plan =
      make_plan(context, "native:cross_entropy",
                [=, threads = context.engine.threads(),
                 &kernel = context.engine.kernels()](const rt_launch& l) {
                  const auto loss_of = [&](int64_t b, int64_t e) {
                    return Sums{.loss = kernel.cross_entropy_rows(
                                    input<float>(l, 0) + b * columns, input<int32_t>(l, 1) + b,
                                    input<float>(l, 2) + b, 0, nullptr, e - b, columns)};
                  };
                  *output<float>(l, 0) = static_cast<float>(
                      sum_parts(threads, rows, row_grain(columns), l.workspace, loss_of).loss);
                });
  plan->edit().workspace_bytes = partial_bytes(context.engine.threads());
  return plan;
}

std::unique_ptr<Plan> make_cross_entropy_backward(const NativeContext& context,
                                                  const Operation& op) {
  const int64_t rows = check_classes(op, 4), columns = last_dim(op.input(0));
  expect_elements(op, op.input(3), 1, "dloss");
  expect_same_dims(op, op.input(0), op.output(0));
  auto plan = make_plan(
      context, "native:cross_entropy_backward",
      [=, threads = context.engine.threads(),
       &kernel = context.engine.kernels()](const rt_launch& l) {
        const float dloss = *input<float>(l, 3);
        parallel_for(threads, rows, row_grain(columns), [&](int64_t b, int64_t e) {
          kernel.cross_entropy_rows(input<float>(l, 0) + b * columns, input<int32_t>(l, 1) + b,
                                    input<float>(l, 2) + b, dloss,
                                    output<float>(l, 0) + b * columns, e - b, columns);
        });
      });
  plan->edit().in_place[0] = 0x1;
  return plan;
}

// Rows whose correct answers are counted before their gradient is written, which may replace the
// logits. They stay in the first-level cache, unless a single one is longer.
int64_t rows_at_once(int64_t columns) {
  constexpr int64_t kLogits = 4096;
  return std::max<int64_t>(1, kLogits / columns);
}

std::unique_ptr<Plan> make_cross_entropy_with_gradient(const NativeContext& context,
                                                       const Operation& op) {
  const bool counts = op.output_count() == 3;
  const int64_t rows = check_classes(op, 4, counts ? 3 : 2), columns = last_dim(op.input(0));
  expect_elements(op, op.input(3), 1, "dloss");
  expect_elements(op, op.output(0), 1, "loss");
  expect_same_dims(op, op.input(0), op.output(1));
  if (counts) expect_elements(op, op.output(2), 1, "count");
  auto plan = make_plan(
      context, "native:cross_entropy_with_gradient",
      [=, threads = context.engine.threads(),
       &kernel = context.engine.kernels()](const rt_launch& l) {
        const float dloss = *input<float>(l, 3);
        const auto compute = [&](int64_t begin, int64_t end) {
          Sums sums;
          for (int64_t r = begin; r < end; r += rows_at_once(columns)) {
            const int64_t n = std::min(rows_at_once(columns), end - r);
            const float* const logits = input<float>(l, 0) + r * columns;
            const int32_t* const labels = input<int32_t>(l, 1) + r;
            const float* const weight = input<float>(l, 2) + r;
            if (counts) {
              sums.correct +=
                  static_cast<double>(kernel.correct_rows(logits, labels, weight, n, columns));
            }
            sums.loss += kernel.cross_entropy_rows(logits, labels, weight, dloss,
                                                   output<float>(l, 1) + r * columns, n, columns);
          }
          return sums;
        };
        const Sums sums = sum_parts(threads, rows, row_grain(columns), l.workspace, compute);
        *output<float>(l, 0) = static_cast<float>(sums.loss);
        if (counts) *output<float>(l, 2) = static_cast<float>(sums.correct);
      });
  plan->edit().workspace_bytes = partial_bytes(context.engine.threads());
  plan->edit().in_place[1] = 0x1;
  return plan;
}

std::unique_ptr<Plan> make_cross_entropy_statistics(const NativeContext& context,
                                                    const Operation& op) {
  expect_counts(op, 2, 1);
  const int64_t rows = row_count(op.input(0)), columns = last_dim(op.input(0));
  expect_dtype(op, op.input(0), RT_FLOAT32, "logits");
  expect_dtype(op, op.input(1), RT_INT32, "labels");
  expect_elements(op, op.input(1), rows, "labels");
  expect_dtype(op, op.output(0), RT_FLOAT32, "part");
  expect_elements(op, op.output(0), 4 * rows, "part");
  if (columns < 1) op.fail("logits need at least one class");
  const int64_t first_class = op.integer(RT_ATTR_FIRST_CLASS, 0);
  return make_plan(context, "native:cross_entropy_statistics",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     parallel_for(threads, rows, row_grain(columns), [&](int64_t b, int64_t e) {
                       kernel.cross_entropy_part_rows(input<float>(l, 0) + b * columns,
                                                      input<int32_t>(l, 1) + b, first_class,
                                                      output<float>(l, 0) + 4 * b, e - b, columns);
                     });
                   });
}

// One thread does this, because there are only four numbers per row and group.
std::unique_ptr<Plan> make_cross_entropy_merge(const NativeContext& context, const Operation& op) {
  expect_counts(op, 2, 3);
  expect_float(op);
  const int64_t rows = rt::sdk::element_count(op.input(1));
  const int64_t groups = op.input(0).rank == 3 ? op.input(0).dims[0] : 0;
  if (groups < 1) op.fail("parts must be [G,R,4]; given " + rt::sdk::to_string(op.input(0)));
  expect_elements(op, op.input(0), groups * rows * 4, "parts");
  expect_elements(op, op.output(0), 1, "loss");
  expect_elements(op, op.output(1), 2 * rows, "rows");
  expect_elements(op, op.output(2), 1, "count");
  return make_plan(context, "native:cross_entropy_merge",
                   [=, &kernel = context.engine.kernels()](const rt_launch& l) {
                     *output<float>(l, 0) = static_cast<float>(kernel.cross_entropy_merge_rows(
                         input<float>(l, 0), input<float>(l, 1), output<float>(l, 1), groups, rows,
                         output<float>(l, 2)));
                   });
}

std::unique_ptr<Plan> make_cross_entropy_backward_apply(const NativeContext& context,
                                                        const Operation& op) {
  const int64_t rows = check_classes(op, 5), columns = last_dim(op.input(0));
  expect_elements(op, op.input(3), 1, "dloss");
  expect_elements(op, op.input(4), 2 * rows, "rows");
  expect_same_dims(op, op.input(0), op.output(0));
  const int64_t first_class = op.integer(RT_ATTR_FIRST_CLASS, 0);
  auto plan =
      make_plan(context, "native:cross_entropy_backward_apply",
                [=, threads = context.engine.threads(),
                 &kernel = context.engine.kernels()](const rt_launch& l) {
                  const float dloss = *input<float>(l, 3);
                  parallel_for(threads, rows, row_grain(columns), [&](int64_t b, int64_t e) {
                    kernel.cross_entropy_backward_apply_rows(
                        input<float>(l, 0) + b * columns, input<int32_t>(l, 1) + b,
                        input<float>(l, 2) + b, dloss, input<float>(l, 4) + 2 * b, first_class,
                        output<float>(l, 0) + b * columns, e - b, columns);
                  });
                });
  plan->edit().in_place[0] = 0x1;
  return plan;
}

std::unique_ptr<Plan> make_correct_count(const NativeContext& context, const Operation& op) {
  const int64_t rows = check_classes(op, 3), columns = last_dim(op.input(0));
  expect_elements(op, op.output(0), 1, "count");
  auto plan = make_plan(
      context, "native:correct_count",
      [=, threads = context.engine.threads(),
       &kernel = context.engine.kernels()](const rt_launch& l) {
        const auto count = [&](int64_t b, int64_t e) {
          return Sums{.correct = static_cast<double>(kernel.correct_rows(
                          input<float>(l, 0) + b * columns, input<int32_t>(l, 1) + b,
                          input<float>(l, 2) + b, e - b, columns))};
        };
        const int64_t grain = kElementGrain / (columns + 1) + 1;
        *output<float>(l, 0) =
            static_cast<float>(sum_parts(threads, rows, grain, l.workspace, count).correct);
      });
  plan->edit().workspace_bytes = partial_bytes(context.engine.threads());
  return plan;
}

// y and target are [N, ...]; a row is one sample.
struct Samples {
  int64_t rows, columns;
};
Samples check_samples(const Operation& op, uint32_t inputs) {
  expect_counts(op, inputs, 1);
  expect_float(op);
  expect_same_dims(op, op.input(0), op.input(1));
  if (op.input(0).rank < 1) op.fail("y needs a batch dimension");
  const int64_t rows = op.input(0).dims[0];
  expect_elements(op, op.input(2), rows, "weight");
  const int64_t count = rt::sdk::element_count(op.input(0));
  return {rows, rows == 0 ? 1 : count / rows};
}

std::unique_ptr<Plan> make_squared_error(const NativeContext& context, const Operation& op) {
  const Samples s = check_samples(op, 3);
  expect_elements(op, op.output(0), 1, "loss");
  auto plan = make_plan(
      context, "native:mean_squared_error",
      [=, threads = context.engine.threads(),
       &kernel = context.engine.kernels()](const rt_launch& l) {
        const auto loss_of = [&](int64_t b, int64_t e) {
          return Sums{.loss = kernel.squared_error_rows(input<float>(l, 0) + b * s.columns,
                                                        input<float>(l, 1) + b * s.columns,
                                                        input<float>(l, 2) + b, e - b, s.columns)};
        };
        const int64_t grain = kElementGrain / (s.columns + 1) + 1;
        *output<float>(l, 0) =
            static_cast<float>(sum_parts(threads, s.rows, grain, l.workspace, loss_of).loss);
      });
  plan->edit().workspace_bytes = partial_bytes(context.engine.threads());
  return plan;
}

std::unique_ptr<Plan> make_squared_error_backward(const NativeContext& context,
                                                  const Operation& op) {
  const Samples s = check_samples(op, 4);
  expect_elements(op, op.input(3), 1, "dloss");
  expect_same_dims(op, op.input(0), op.output(0));
  auto plan =
      make_plan(context, "native:mean_squared_error_backward",
                [=, threads = context.engine.threads(),
                 &kernel = context.engine.kernels()](const rt_launch& l) {
                  const float dloss = *input<float>(l, 3);
                  parallel_for(threads, s.rows, kElementGrain / (s.columns + 1) + 1,
                               [&](int64_t b, int64_t e) {
                                 kernel.squared_error_backward_rows(
                                     input<float>(l, 0) + b * s.columns,
                                     input<float>(l, 1) + b * s.columns, input<float>(l, 2) + b,
                                     dloss, output<float>(l, 0) + b * s.columns, e - b, s.columns);
                               });
                });
  plan->edit().in_place[0] = 0x3;
  return plan;
}

constexpr NativeKernel kLossKernels[] = {
    {RT_OP_SOFTMAX, LayoutRule::kCanonical, make_softmax},
    {RT_OP_SOFTMAX_BACKWARD, LayoutRule::kCanonical, make_softmax_backward},
    {RT_OP_LOG_SOFTMAX, LayoutRule::kCanonical, make_softmax},
    {RT_OP_LOG_SOFTMAX_BACKWARD, LayoutRule::kCanonical, make_softmax_backward},
    {RT_OP_CROSS_ENTROPY, LayoutRule::kCanonical, make_cross_entropy},
    {RT_OP_CROSS_ENTROPY_BACKWARD, LayoutRule::kCanonical, make_cross_entropy_backward},
    {RT_OP_CROSS_ENTROPY_WITH_GRADIENT, LayoutRule::kCanonical, make_cross_entropy_with_gradient},
    {RT_OP_CROSS_ENTROPY_STATISTICS, LayoutRule::kCanonical, make_cross_entropy_statistics},
    {RT_OP_CROSS_ENTROPY_MERGE, LayoutRule::kCanonical, make_cross_entropy_merge},
    {RT_OP_CROSS_ENTROPY_BACKWARD_APPLY, LayoutRule::kCanonical, make_cross_entropy_backward_apply},
    {RT_OP_MEAN_SQUARED_ERROR, LayoutRule::kCanonical, make_squared_error},
    {RT_OP_MEAN_SQUARED_ERROR_BACKWARD, LayoutRule::kCanonical, make_squared_error_backward},
    {RT_OP_CORRECT_COUNT, LayoutRule::kCanonical, make_correct_count},
};

}  // namespace

KernelTable loss_kernels() { return {kLossKernels, std::size(kLossKernels)}; }

}  // namespace backends::cpu
