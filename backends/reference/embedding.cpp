// embedding and its gradient. The kernels do not check indices, because the code that loads data
// sets refuses indices outside 0..V-1.
#include "rt/sdk/embedding.h"

#include <algorithm>

#include "backends/reference/check.h"
#include "backends/reference/families.h"

namespace backends::reference {
Kernel make_embedding(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 1, "table");
  const auto s = rt::sdk::embedding_shape(op, dtype);
  return floating_kernel(dtype, {}, [s]<typename T>(const Buffers& b) {
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
  });
}

Kernel make_embedding_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 1, "dy");
  const auto s = rt::sdk::embedding_backward_shape(op, dtype);
  const Kernel needs{.workspace_bytes = s.rows * s.width * sizeof(double)};
  return floating_kernel(dtype, needs, [s]<typename T>(const Buffers& b) {
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
  });
}

}  // namespace backends::reference
