// Definitions of "Element by element", "Reductions" and "Look-up and data movement".
#ifndef RT_SDK_DEFINITIONS_ELEMENTS_H_
#define RT_SDK_DEFINITIONS_ELEMENTS_H_

#include "rt/operations.h"
#include "rt/sdk/definition.h"

namespace rt::sdk::definitions {

using enum OperandDefinition::Property;
using enum Definition::Trait;

// Operands with as many elements as the result, and such that are broadcast to it.
inline constexpr OperandDefinition kX = {"x", "[E*]", kRows}, kY = {"y", "[E*]", kRows},
                                   kA = {"a", "", kRows}, kB = {"b", "", kRows},
                                   kC = {"c", "", kRows};

inline constexpr Definition kElements[] = {
    {RT_OP_ACTIVATION, {kX}, {kY}, {{RT_ATTR_FUNCTION}}, kMandatory | kForeignLayouts},
    {RT_OP_ACTIVATION_BACKWARD,
     {{"dy", "[E*]", kRows}, {"s", "[E*]", kRows}},
     {{"dx", "[E*]", kRows}},
     {{RT_ATTR_FUNCTION}},
     kMandatory | kForeignLayouts},
    {RT_OP_ADD, {kA, kB}, {kC}, {}, kMandatory | kPostOperations | kForeignLayouts},
    {RT_OP_SUBTRACT, {kA, kB}, {kC}, {}, kMandatory},
    {RT_OP_MULTIPLY, {kA, kB}, {kC}, {}, kMandatory | kForeignLayouts},
    {RT_OP_DIVIDE, {kA, kB}, {kC}, {}, kMandatory},
    {RT_OP_SCALE, {kX}, {kY}, {{RT_ATTR_ALPHA, 1}, {RT_ATTR_BETA, 0}}, kMandatory},
    // `whole_columns` is that of `columns` where it is left out.
    {RT_OP_DROPOUT,
     {{"x", "[N,E*]", kRows}, {"step", "[1]", kCounter}, {"base", "[1]", kCounter}},
     {{"y", "[N,E*]", kRows}},
     {{RT_ATTR_PROBABILITY},
      {RT_ATTR_SEED},
      {RT_ATTR_STREAM},
      {RT_ATTR_COLUMNS, 0},
      {RT_ATTR_WHOLE_COLUMNS, 0},
      {RT_ATTR_FIRST_COLUMN, 0}}},
    {RT_OP_GATED_ACTIVATION,
     {{"gate", "[E*]", kRows}, {"up", "[E*]", kRows}},
     {{"y", "[E*]", kRows}},
     {{RT_ATTR_FUNCTION}}},
    {RT_OP_GATED_ACTIVATION_BACKWARD,
     {{"dy", "[E*]", kRows}, {"gate", "[E*]", kRows}, {"up", "[E*]", kRows}},
     {{"dgate", "[E*]", kRows}, {"dup", "[E*]", kRows}},
     {{RT_ATTR_FUNCTION}}},
};

inline constexpr Definition kReductions[] = {
    {RT_OP_REDUCE,
     {{"x", "", kRows}},
     {{"y", "", kRows}},
     {{RT_ATTR_FUNCTION}, {RT_ATTR_AXES}},
     kMandatory},
    {RT_OP_SQUARE_SUM, {{"x", "[1,E*]", kRows}}, {{"s", "[1]", kWide}}},
    {RT_OP_CLIP_SCALE, {{"s", "[1]", kWide}}, {{"c", "[1]", kWide}}, {{RT_ATTR_MAX_NORM}}},
    {RT_OP_LOSS_SCALE,
     {{"s", "[1]", kWide}, {"state", "[S]", kWide}},
     {{"c", "[1]", kWide}, {"state", "[S]", kWide | kInPlace}},
     {{RT_ATTR_MAX_NORM, 0}}},
};

// What has no dims here keeps or permutes those of its input, by its attributes.
inline constexpr Definition kMovement[] = {
    {RT_OP_EMBEDDING,
     {{"indices", "[R*]", kRows | kIndex}, {"table", "[V,D]"}},
     {{"y", "[R*,D]", kRows}},
     {{RT_ATTR_FIRST_ROW, -1}},
     kBase | kExactResult},
    {RT_OP_EMBEDDING_BACKWARD,
     {{"indices", "[R*]", kRows | kIndex}, {"dy", "[R*,D]", kRows}},
     {{"dtable", "[V,D]"}},
     {{RT_ATTR_FIRST_ROW, -1}},
     kBase},
    {RT_OP_TRANSPOSE,
     {{"x", "", kRows}},
     {{"y", "", kRows}},
     {{RT_ATTR_PERMUTATION}},
     kExactResult},
    {RT_OP_CONCAT,
     {{"x", "", kRows | kRepeated}},
     {{"y", "", kRows}},
     {{RT_ATTR_AXIS}},
     kExactResult},
    {RT_OP_SLICE,
     {{"x", "[A^axis,L,B*]", kRows}},
     {{"y", "[A^axis,M,B*]", kRows}},
     {{RT_ATTR_AXIS}, {RT_ATTR_START, 0}},
     kExactResult},
    {RT_OP_PAD,
     {{"x", "[A^axis,L,B*]", kRows}},
     {{"y", "[A^axis,M,B*]", kRows}},
     {{RT_ATTR_AXIS}, {RT_ATTR_START, 0}},
     kExactResult},
    {RT_OP_CAST, {kX}, {kY}, {}, kExactResult},
    {RT_OP_COPY, {kX}, {kY}, {}, kMandatory | kExactResult | kForeignLayouts},
    {RT_OP_FILL, {}, {{"y", "", kRows}}, {{RT_ATTR_VALUE, 0}}, kMandatory},
};

}  // namespace rt::sdk::definitions

#endif  // RT_SDK_DEFINITIONS_ELEMENTS_H_
