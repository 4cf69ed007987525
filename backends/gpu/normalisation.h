// The factories of the normalisations, whose entries are in normalisation.cu, and what they share.
#ifndef BACKENDS_GPU_NORMALISATION_H_
#define BACKENDS_GPU_NORMALISATION_H_

#include "backends/gpu/column_grid.h"

namespace backends::gpu {

// batch_norm_parts.cu: batch_norm whose statistics are computed in parts and merged
Kernel make_statistics(const Properties&, const Operation& op);
Kernel make_merge(const Properties&, const Operation& op);
Kernel make_backward_statistics(const Properties&, const Operation& op);
Kernel make_backward_apply(const Properties&, const Operation& op);
// row_norm.cu
Kernel make_layer_norm(const Properties&, const Operation& op);
Kernel make_layer_norm_backward(const Properties&, const Operation& op);
Kernel make_rms_norm(const Properties&, const Operation& op);
Kernel make_rms_norm_backward(const Properties&, const Operation& op);

// x as [rows, columns], and the attributes.
struct NormShape {
  int64_t rows, columns;
  double epsilon, momentum;
  int64_t count() const { return rows * columns; }
};
inline NormShape norm_shape(const Operation& op, uint32_t x) {
  expect_columns(op, last_dim(op.input(x)));
  return {row_count(op.input(x)), last_dim(op.input(x)), op.number(RT_ATTR_EPSILON),
          op.number(RT_ATTR_MOMENTUM, 0.1)};
}

// Bytes of the operands of the post-operations.
inline double post_bytes(const Operation& op) {
  double bytes = 0;
  for (uint32_t i = 0; i < op.post_op_count(); ++i) {
    const int32_t operand = op.post_op(i).operand;
    if (operand >= 0) bytes += bytes_of(op.input(static_cast<uint32_t>(operand)));
  }
  return bytes;
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_NORMALISATION_H_
