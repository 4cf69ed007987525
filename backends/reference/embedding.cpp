// embedding and its gradient. The kernels do not check indices, because the code that loads data
// sets refuses indices outside 0..V-1.
#include <algorithm>

#include "backends/reference/check.h"
#include "backends/reference/families.h"

namespace backends::reference {
namespace {

struct Shape {
  int64_t count, rows, width;
  int64_t first_row;  // first row of the tensor-parallel slice; -1: the table is whole

  // The row of `table` for an index; -1 if another tensor-parallel slice of the table has it.
  int64_t row_of(int32_t index) const {
    if (first_row < 0) return index;
    const int64_t row = index - first_row;
    return row >= 0 && row < rows ? row : -1;
  }
};

// Reads the shape of indices [...] and a table [V,D], which give rows [...,D].
Shape read_shape(const Operation& op, const rt_tensor_desc& table) {
  const Dims indices = dims_of(op.input(0));
  expect_input(op, 0, "indices", RT_INT32, indices);
  return {product(indices), table.dims[0], table.dims[1],
          integer_at_least(op, RT_ATTR_FIRST_ROW, -1, -1)};
}

Dims row_dims(const Operation& op, const Shape& s) {
  Dims dims = dims_of(op.input(0));
  dims.push_back(s.width);
  return dims;
}

}  // namespace

Kernel make_embedding(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 1, "table");
  expect_counts(op, 2, 1);
  const Shape s = read_shape(op, input_of_rank(op, 1, "table", 2));
  expect_output(op, 0, "y", dtype, row_dims(op, s));
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [s](const Buffers& b) {
      const int32_t* indices = b.input<int32_t>(0);
      for (int64_t i = 0; i < s.count; ++i) {
        T* y = b.output<T>(0) + i * s.width;
        const int64_t row = s.row_of(indices[i]);
        if (row < 0) {
          std::fill_n(y, s.width, T(0));
        } else {
          std::copy_n(b.input<T>(1) + row * s.width, s.width, y);
        }
      }
    };
    return kernel;
  });
}

Kernel make_embedding_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 1, "dy");
  expect_counts(op, 2, 1);
  const Shape s = read_shape(op, output_of_rank(op, 0, "dtable", 2));
  expect_input(op, 1, "dy", dtype, row_dims(op, s));
  expect_output(op, 0, "dtable", dtype, {s.rows, s.width});
  return for_floating(dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.workspace_bytes = s.rows * s.width * sizeof(double);
    kernel.run = [s](const Buffers& b) {
      const int32_t* indices = b.input<int32_t>(0);
      const T* dy = b.input<T>(1);
      double* sums = b.scratch<double>();
      std::fill_n(sums, s.rows * s.width, 0.0);
      for (int64_t i = 0; i < s.count; ++i) {
        const int64_t row = s.row_of(indices[i]);
        if (row < 0) continue;
        double* sum = sums + row * s.width;
        for (int64_t j = 0; j < s.width; ++j) sum[j] += static_cast<double>(dy[i * s.width + j]);
      }
      T* dtable = b.output<T>(0);
      for (int64_t i = 0; i < s.rows * s.width; ++i) dtable[i] = static_cast<T>(sums[i]);
    };
    return kernel;
  });
}

}  // namespace backends::reference
