// Checks which operations and ranks may have foreign layouts.
#include "rt/sdk/foreign_layout.h"

#include <gtest/gtest.h>

namespace rt::sdk {
namespace {

TEST(ForeignLayout, IsForTensorsOfTheOperationsInTheContract) {
  for (const char* name :
       {RT_OP_MATMUL, RT_OP_CONV2D_BACKWARD_WEIGHTS, RT_OP_MAX_POOL2D_BACKWARD,
        RT_OP_GLOBAL_AVG_POOL, RT_OP_CONV2D_POOL2D, RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS,
        RT_OP_ACTIVATION_BACKWARD, RT_OP_ADD, RT_OP_BATCH_NORM_INFERENCE, RT_OP_COPY}) {
    EXPECT_TRUE(takes_foreign_layout(name, 2)) << name;
    EXPECT_FALSE(takes_foreign_layout(name, 1)) << name << ": vectors stay canonical";
  }
  for (const char* name : {RT_OP_SUBTRACT, RT_OP_SOFTMAX, RT_OP_BATCH_NORM_APPLY, RT_OP_LAYER_NORM,
                           RT_OP_CONCAT, RT_OP_SGD, "conv"})
    EXPECT_FALSE(takes_foreign_layout(name, 4)) << name;
}

}  // namespace
}  // namespace rt::sdk
