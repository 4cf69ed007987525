// Definitions of "Softmax and losses" and "Optimizers".
#ifndef RT_SDK_DEFINITIONS_LOSSES_H_
#define RT_SDK_DEFINITIONS_LOSSES_H_

#include "rt/operations.h"
#include "rt/sdk/definition.h"

namespace rt::sdk::definitions {

using enum OperandDefinition::Property;
using enum Definition::Trait;

// Operands of several losses.
inline constexpr OperandDefinition kLogits = {"logits", "[R*,C]", kRows},
                                   kLabels = {"labels", "[R*]", kRows | kIndex},
                                   kWeight = {"weight", "[R*,1]", kRows | kWide},
                                   kLoss = {"loss", "[1]", kWide},
                                   kGradientOfLoss = {"dloss", "[1]", kWide},
                                   kGradientOfLogits = {"dlogits", "[R*,C]", kRows};

inline constexpr Definition kSoftmax[] = {
    {RT_OP_SOFTMAX, {{"x", "[R*,D]", kRows}}, {{"y", "[R*,D]", kRows}}},
    {RT_OP_SOFTMAX_BACKWARD,
     {{"dy", "[R*,D]", kRows}, {"y", "[R*,D]", kRows}},
     {{"dx", "[R*,D]", kRows}}},
    {RT_OP_LOG_SOFTMAX, {{"x", "[R*,D]", kRows}}, {{"y", "[R*,D]", kRows}}},
    {RT_OP_LOG_SOFTMAX_BACKWARD,
     {{"dy", "[R*,D]", kRows}, {"y", "[R*,D]", kRows}},
     {{"dx", "[R*,D]", kRows}}},
};

inline constexpr Definition kLosses[] = {
    {RT_OP_CROSS_ENTROPY, {kLogits, kLabels, kWeight}, {kLoss}, {}, kMandatory | kRowLayouts},
    {RT_OP_CROSS_ENTROPY_BACKWARD,
     {kLogits, kLabels, kWeight, kGradientOfLoss},
     {kGradientOfLogits},
     {},
     kMandatory | kRowLayouts},
    {RT_OP_CROSS_ENTROPY_WITH_GRADIENT,
     {kLogits, kLabels, kWeight, kGradientOfLoss},
     {kLoss, kGradientOfLogits, {"count", "[1]", kWide | kOptional}},
     {},
     kRowLayouts},
    {RT_OP_CROSS_ENTROPY_STATISTICS,
     {kLogits, kLabels},
     {{"part", "[A,R,B]", kWide}},
     {{RT_ATTR_FIRST_CLASS, 0}}},
    {RT_OP_CROSS_ENTROPY_MERGE,
     {{"parts", "[G,R,B]", kRows | kWide}, {"weight", "[R*,1]", kWide}},
     {kLoss, {"rows", "[R,A]", kWide}, {"count", "[1]", kWide}}},
    {RT_OP_CROSS_ENTROPY_BACKWARD_APPLY,
     {kLogits, kLabels, kWeight, kGradientOfLoss, {"rows", "[R,B]", kRows | kWide}},
     {kGradientOfLogits},
     {{RT_ATTR_FIRST_CLASS, 0}}},
    {RT_OP_MEAN_SQUARED_ERROR,
     {{"y", "[N,D*]", kRows}, {"target", "[N,D*]", kRows}, {"weight", "[N,1]", kRows | kWide}},
     {kLoss}},
    {RT_OP_MEAN_SQUARED_ERROR_BACKWARD,
     {{"y", "[N,D*]", kRows},
      {"target", "[N,D*]", kRows},
      {"weight", "[N,1]", kRows | kWide},
      kGradientOfLoss},
     {{"dy", "[N,D*]", kRows}}},
    {RT_OP_CORRECT_COUNT,
     {kLogits, kLabels, kWeight},
     {{"count", "[1]", kWide}},
     {},
     kMandatory | kExactResult | kRowLayouts},
};

// Without momentum `sgd` has no velocity. `narrow` is the last output, if there is one.
inline constexpr Definition kOptimizers[] = {
    {RT_OP_SGD,
     {{"param", "[E*]", kRows | kWide},
      {"grad", "[E*]", kRows | kWide},
      {"lr", "[1]", kWide},
      {"scale", "[1]", kWide},
      {"velocity", "[E*]", kRows | kWide | kOptional}},
     {{"param", "[E*]", kRows | kWide | kInPlace},
      {"velocity", "[E*]", kRows | kWide | kInPlace | kOptional},
      {"narrow", "[E*]", kRows | kOptional}},
     {{RT_ATTR_MOMENTUM, 0}, {RT_ATTR_NESTEROV, 0}, {RT_ATTR_WEIGHT_DECAY, 0}},
     kMandatory},
    {RT_OP_ADAMW,
     {{"param", "[E*]", kRows | kWide},
      {"grad", "[E*]", kRows | kWide},
      {"lr", "[1]", kWide},
      {"scale", "[1]", kWide},
      {"m", "[E*]", kRows | kWide},
      {"v", "[E*]", kRows | kWide},
      {"step", "[1]", kCounter}},
     {{"param", "[E*]", kRows | kWide | kInPlace},
      {"m", "[E*]", kRows | kWide | kInPlace},
      {"v", "[E*]", kRows | kWide | kInPlace},
      {"narrow", "[E*]", kRows | kOptional}},
     {{RT_ATTR_BETA1}, {RT_ATTR_BETA2}, {RT_ATTR_EPSILON}, {RT_ATTR_WEIGHT_DECAY, 0}}},
};

}  // namespace rt::sdk::definitions

#endif  // RT_SDK_DEFINITIONS_LOSSES_H_
