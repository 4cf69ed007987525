// The sizes of embedding and its gradient.
#ifndef RT_SDK_EMBEDDING_H_
#define RT_SDK_EMBEDDING_H_

#include "rt/sdk/expect.h"

namespace rt::sdk {

// Indices [...] and a table [V,D] give rows [...,D].
struct EmbeddingShape {
  int64_t count, rows, width;  // number of indices, V, D
  int64_t first_row;           // first row of the tensor-parallel slice; -1: the table is whole

  // The row of the table for an index; -1 if another tensor-parallel slice of the table has it. A
  // whole table has each index: whoever loads data refuses the others.
  int64_t row_of(int32_t index) const {
    if (first_row < 0) return index;
    const int64_t row = index - first_row;
    return row >= 0 && row < rows ? row : -1;
  }
};

// Reads everything but the rows, whose dims are written to `result`.
inline EmbeddingShape table_shape(const Operation& op, const rt_tensor_desc& table, Dims& result) {
  expect_counts(op, 2, 1);
  result = dims_of(op.input(0));
  expect_input(op, 0, "indices", RT_INT32, result);
  const EmbeddingShape s{product(result), table.dims[0], table.dims[1],
                         integer_at_least(op, RT_ATTR_FIRST_ROW, -1, -1)};
  result.push_back(s.width);
  return s;
}

// Reads and checks indices, table -> y, all but the indices of the type `dtype`. Throws the errors
// of rt/sdk/expect.h.
inline EmbeddingShape embedding_shape(const Operation& op, rt_dtype dtype) {
  Dims rows;
  const EmbeddingShape s = table_shape(op, input_of_rank(op, 1, "table", 2), rows);
  expect_input(op, 1, "table", dtype, {s.rows, s.width});
  expect_output(op, 0, "y", dtype, rows);
  return s;
}
// The same for indices, dy -> dtable.
inline EmbeddingShape embedding_backward_shape(const Operation& op, rt_dtype dtype) {
  Dims rows;
  const EmbeddingShape s = table_shape(op, output_of_rank(op, 0, "dtable", 2), rows);
  expect_input(op, 1, "dy", dtype, rows);
  expect_output(op, 0, "dtable", dtype, {s.rows, s.width});
  return s;
}

}  // namespace rt::sdk

#endif  // RT_SDK_EMBEDDING_H_
