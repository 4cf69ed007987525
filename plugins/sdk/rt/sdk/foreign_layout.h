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

}  // namespace rt::sdk

#endif  // RT_SDK_FOREIGN_LAYOUT_H_
