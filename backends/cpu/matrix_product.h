// A matmul as one product of two matrices.
#ifndef BACKENDS_CPU_MATRIX_PRODUCT_H_
#define BACKENDS_CPU_MATRIX_PRODUCT_H_

#include <cstdint>
#include <optional>

#include "rt/sdk/operation.h"

namespace backends::cpu {

// c [rows][columns] = a b, summed over `depth`. a is stored as [rows][depth], or as its transpose;
// so is b.
struct MatrixProduct {
  int64_t rows, columns, depth;
  bool transpose_a, transpose_b;
};

// The product of a matmul with two operands, with the rows of all batches as one matrix. Empty for
// another operation, for an operand b with batches, if the shapes do not fit, and if a dimension is
// 0. Types and layouts are not looked at.
std::optional<MatrixProduct> as_one_product(const rt::sdk::Operation& op);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_MATRIX_PRODUCT_H_
