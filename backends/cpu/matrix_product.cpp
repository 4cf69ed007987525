// Folds the batch of a matmul into the rows of one product where b has no batch.
#include "backends/cpu/matrix_product.h"

#include "backends/cpu/native.h"
#include "rt/operations.h"

namespace backends::cpu {

std::optional<MatrixProduct> as_one_product(const rt::sdk::Operation& op) {
  if (!op.is(RT_OP_MATMUL) || op.own_input_count() != 2) return std::nullopt;
  const rt_tensor_desc &a = op.input(0), &b = op.input(1), &c = op.output(0);
  const bool ta = op.integer(RT_ATTR_TRANSPOSE_A, 0) != 0,
             tb = op.integer(RT_ATTR_TRANSPOSE_B, 0) != 0;
  if (a.rank < 2 || b.rank != 2 || c.rank != a.rank || (ta && a.rank != 2)) return std::nullopt;
  const MatrixProduct p{row_count(c), last_dim(c), ta ? a.dims[0] : last_dim(a), ta, tb};
  const bool fits = (ta ? a.dims[1] : row_count(a)) == p.rows && b.dims[tb ? 1 : 0] == p.depth &&
                    b.dims[tb ? 0 : 1] == p.columns;
  if (!fits || p.rows == 0 || p.columns == 0 || p.depth == 0) return std::nullopt;
  return p;
}

}  // namespace backends::cpu
