// Which operands may have other layouts than the canonical one.
#ifndef RT_SDK_FOREIGN_LAYOUT_H_
#define RT_SDK_FOREIGN_LAYOUT_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "rt/operations.h"

namespace rt::sdk {

// Whether an operand of this rank of the operation `name` may have a foreign layout (the section
// "Layouts" of operations.md). All other operands are always canonical.
inline bool takes_foreign_layout(std::string_view name, int32_t rank) {
  static constexpr std::string_view kOperations[] = {RT_OP_MATMUL,
                                                     RT_OP_CONV2D,
                                                     RT_OP_CONV2D_BACKWARD_DATA,
                                                     RT_OP_CONV2D_BACKWARD_WEIGHTS,
                                                     RT_OP_MAX_POOL2D,
                                                     RT_OP_MAX_POOL2D_BACKWARD,
                                                     RT_OP_AVG_POOL2D,
                                                     RT_OP_AVG_POOL2D_BACKWARD,
                                                     RT_OP_GLOBAL_AVG_POOL,
                                                     RT_OP_GLOBAL_AVG_POOL_BACKWARD,
                                                     RT_OP_CONV2D_POOL2D,
                                                     RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS,
                                                     RT_OP_ACTIVATION,
                                                     RT_OP_ACTIVATION_BACKWARD,
                                                     RT_OP_ADD,
                                                     RT_OP_MULTIPLY,
                                                     RT_OP_BATCH_NORM,
                                                     RT_OP_BATCH_NORM_INFERENCE,
                                                     RT_OP_BATCH_NORM_BACKWARD,
                                                     RT_OP_COPY};
  return rank >= 2 &&
         std::find(std::begin(kOperations), std::end(kOperations), name) != std::end(kOperations);
}

// The ids of row layouts (contract 1.1; "Layouts" of operations.md), which plugins and host share.
// A row is a vector along the last dimension. Rows are dense and lie in row-major order, each
// `row_length` elements behind the one before; what lies between them is padding. An id holds the
// row length and nothing else of a tensor, so a tensor and a view of it with the same rows and
// other leading dimensions have the same layout. Equivalent to: a leading dimension (lda) of BLAS.
inline constexpr uint64_t kRowLayout = UINT64_C(0x524f5753) << 32;

// Returns the id of the layout whose rows are `row_length` elements apart.
inline constexpr uint64_t row_layout(uint32_t row_length) { return kRowLayout | row_length; }
// Whether a layout is one of these.
inline constexpr bool is_row_layout(uint64_t layout) { return layout >> 32 == kRowLayout >> 32; }
// Returns the elements from the beginning of a row to that of the next one, of a row layout.
inline constexpr int64_t row_length(uint64_t layout) {
  return static_cast<int64_t>(layout & UINT32_MAX);
}

// Whether the operation `name` follows the row layout of its first input: the host may ask for it,
// and then for the same one in every output with the dims of that input. It never asks for
// RT_LAYOUT_ANY.
inline bool follows_row_layout(std::string_view name) {
  static constexpr std::string_view kOperations[] = {
      RT_OP_CROSS_ENTROPY, RT_OP_CROSS_ENTROPY_BACKWARD, RT_OP_CROSS_ENTROPY_WITH_GRADIENT,
      RT_OP_CORRECT_COUNT};
  return std::find(std::begin(kOperations), std::end(kOperations), name) != std::end(kOperations);
}

}  // namespace rt::sdk

#endif  // RT_SDK_FOREIGN_LAYOUT_H_
