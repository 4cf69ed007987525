// Definitions of "Linear algebra and convolution" and "Pooling".
#ifndef RT_SDK_DEFINITIONS_IMAGES_H_
#define RT_SDK_DEFINITIONS_IMAGES_H_

#include "rt/operations.h"
#include "rt/sdk/definition.h"

namespace rt::sdk::definitions {

using enum OperandDefinition::Property;
using enum Definition::Trait;

// The dims of a product's operands depend on its attributes.
inline constexpr Definition kProducts[] = {
    {RT_OP_MATMUL,
     {{"a", "", kRows}, {"b"}},
     {{"c", "", kRows}, {"d", "", kOptional}},
     {{RT_ATTR_TRANSPOSE_A, 0}, {RT_ATTR_TRANSPOSE_B, 0}},
     kMandatory | kPostOperations | kForeignLayouts},
};

inline constexpr AttributeDefinitions kConvolution = {
    {RT_ATTR_STRIDE_H, 1},   {RT_ATTR_STRIDE_W, 1},   {RT_ATTR_PAD_TOP, 0},
    {RT_ATTR_PAD_BOTTOM, 0}, {RT_ATTR_PAD_LEFT, 0},   {RT_ATTR_PAD_RIGHT, 0},
    {RT_ATTR_DILATION_H, 1}, {RT_ATTR_DILATION_W, 1}, {RT_ATTR_GROUPS, 1}};

inline constexpr Definition kConvolutions[] = {
    {RT_OP_CONV2D,
     {{"x", "[N,H,W,E]", kRows}, {"w", "[O,K,L,C]"}},
     {{"y", "[N,P,Q,O]", kRows}},
     kConvolution,
     kPostOperations | kForeignLayouts},
    {RT_OP_CONV2D_BACKWARD_DATA,
     {{"dy", "[N,P,Q,O]", kRows}, {"w", "[O,K,L,C]"}},
     {{"dx", "[N,H,W,E]", kRows}},
     kConvolution,
     kPostOperations | kForeignLayouts},
    {RT_OP_CONV2D_BACKWARD_WEIGHTS,
     {{"x", "[N,H,W,E]", kRows}, {"dy", "[N,P,Q,O]", kRows}},
     {{"dw", "[O,K,L,C]"}, {"db", "[O]", kOptional}},
     kConvolution,
     kForeignLayouts},
};

inline constexpr AttributeDefinitions kWindow = {
    {RT_ATTR_KERNEL_H},   {RT_ATTR_KERNEL_W},      {RT_ATTR_STRIDE_H, 1}, {RT_ATTR_STRIDE_W, 1},
    {RT_ATTR_PAD_TOP, 0}, {RT_ATTR_PAD_BOTTOM, 0}, {RT_ATTR_PAD_LEFT, 0}, {RT_ATTR_PAD_RIGHT, 0}};
inline constexpr AttributeDefinitions kMeanWindow = kWindow.with({{RT_ATTR_COUNT_INCLUDE_PAD, 1}});

inline constexpr Definition kPoolings[] = {
    {RT_OP_MAX_POOL2D,
     {{"x", "[N,H,W,C]", kRows}},
     {{"y", "[N,P,Q,C]", kRows}},
     kWindow,
     kExactResult | kSavesData | kPostOperations | kForeignLayouts},
    {RT_OP_MAX_POOL2D_BACKWARD,
     {{"dy", "[N,P,Q,C]", kRows}},
     {{"dx", "[N,H,W,C]", kRows}},
     kWindow,
     kSavesData | kPostOperations | kForeignLayouts},
    {RT_OP_AVG_POOL2D,
     {{"x", "[N,H,W,C]", kRows}},
     {{"y", "[N,P,Q,C]", kRows}},
     kMeanWindow,
     kPostOperations | kForeignLayouts},
    {RT_OP_AVG_POOL2D_BACKWARD,
     {{"dy", "[N,P,Q,C]", kRows}},
     {{"dx", "[N,H,W,C]", kRows}},
     kMeanWindow,
     kPostOperations | kForeignLayouts},
    {RT_OP_GLOBAL_AVG_POOL,
     {{"x", "[N,H,W,C]", kRows}},
     {{"y", "[N,C]", kRows}},
     {},
     kPostOperations | kForeignLayouts},
    {RT_OP_GLOBAL_AVG_POOL_BACKWARD,
     {{"dy", "[N,C]", kRows}},
     {{"dx", "[N,H,W,C]", kRows}},
     {},
     kPostOperations | kForeignLayouts},
};

inline constexpr AttributeDefinitions kPooledConvolution = kConvolution.with(
    {{RT_ATTR_FUNCTION, 0}, {RT_ATTR_KERNEL_H}, {RT_ATTR_KERNEL_W}, {RT_ATTR_AVERAGE}});

inline constexpr Definition kPooledConvolutions[] = {
    {RT_OP_CONV2D_POOL2D,
     {{"x", "[N,H,W,E]", kRows | kWide}, {"w", "[O,K,L,C]", kWide}, {"b", "[O]", kWide}},
     {{"y", "[N,R,S,O]", kRows | kWide}},
     kPooledConvolution,
     kSavesData | kForeignLayouts},
    {RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS,
     {{"x", "[N,H,W,E]", kRows | kWide}, {"dy", "[N,R,S,O]", kRows | kWide}},
     {{"dw", "[O,K,L,C]", kWide}, {"db", "[O]", kWide}},
     kPooledConvolution,
     kSavesData | kForeignLayouts},
};

}  // namespace rt::sdk::definitions

#endif  // RT_SDK_DEFINITIONS_IMAGES_H_
