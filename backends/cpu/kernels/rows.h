// Serial kernels over rows of `columns` elements: softmax and the losses.
#ifndef BACKENDS_CPU_KERNELS_ROWS_H_
#define BACKENDS_CPU_KERNELS_ROWS_H_

#include <cstdint>

namespace backends::cpu::kernels {

// The kernels of one instruction set. Logits are [rows][columns]; labels and weight have one number
// per row.
struct RowKernels {
  // y = softmax(x) or log(softmax(x)) of each row; y may be x.
  void (*softmax_rows)(const float* x, float* y, int64_t rows, int64_t columns);
  void (*log_softmax_rows)(const float* x, float* y, int64_t rows, int64_t columns);
  // The gradients dx of these two, from dy and the result y; dx may be dy or y.
  void (*softmax_backward_rows)(const float* dy, const float* y, float* dx, int64_t rows,
                                int64_t columns);
  void (*log_softmax_backward_rows)(const float* dy, const float* y, float* dx, int64_t rows,
                                    int64_t columns);

  // Returns the sum over rows of weight * (logsumexp - logit of the label). Unless it is null,
  // `dlogits` receives the gradient of dloss times that sum; it may be `logits`.
  double (*cross_entropy_rows)(const float* logits, const int32_t* labels, const float* weight,
                               float dloss, float* dlogits, int64_t rows, int64_t columns);

  // Cross-entropy of logits whose classes are split over tensor-parallel ranks. `part` has four
  // numbers per row and `merged` two; see plugins/operations.md. In `parts`, the rows of one group
  // follow those of the group before. `correct` receives the number of correct answers.
  void (*cross_entropy_part_rows)(const float* logits, const int32_t* labels, int64_t first_class,
                                  float* part, int64_t rows, int64_t columns);
  double (*cross_entropy_merge_rows)(const float* parts, const float* weight, float* merged,
                                     int64_t groups, int64_t rows, float* correct);
  void (*cross_entropy_backward_apply_rows)(const float* logits, const int32_t* labels,
                                            const float* weight, float dloss, const float* merged,
                                            int64_t first_class, float* dlogits, int64_t rows,
                                            int64_t columns);

  // The number of rows with positive weight whose largest logit is that of the label.
  int64_t (*correct_rows)(const float* logits, const int32_t* labels, const float* weight,
                          int64_t rows, int64_t columns);

  // Returns the sum over rows of weight times the mean of (y - target)^2.
  double (*squared_error_rows)(const float* y, const float* target, const float* weight,
                               int64_t rows, int64_t columns);
  // The gradient of dloss times that sum; dy may be y or target.
  void (*squared_error_backward_rows)(const float* y, const float* target, const float* weight,
                                      float dloss, float* dy, int64_t rows, int64_t columns);
};

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_ROWS_H_
