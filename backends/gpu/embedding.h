// embedding and its gradient.
#ifndef BACKENDS_GPU_EMBEDDING_H_
#define BACKENDS_GPU_EMBEDDING_H_

#include "backends/gpu/device_code.h"

namespace backends::gpu {

struct Table {
  int64_t count, rows, width;  // count: number of indices; rows, width: of the table
  int64_t first_row;           // first row of the tensor-parallel slice; -1: the table is whole
  // The row of `table` for an index; -1 if another tensor-parallel slice of the table has it.
  GPU_DEVICE int64_t row_of(int32_t index) const {
    if (first_row < 0) return index;
    const int64_t row = index - first_row;
    return row >= 0 && row < rows ? row : -1;
  }
};

inline Table table_of(const Operation& op, const rt_tensor_desc& table) {
  return {rt::sdk::element_count(op.input(0)), table.dims[0], table.dims[1],
          op.integer(RT_ATTR_FIRST_ROW, -1)};
}

// A Factory, in embedding.cu.
Kernel make_embedding_backward(const Properties& properties, const Operation& op);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_EMBEDDING_H_
