// Definitions of "Normalisation".
#ifndef RT_SDK_DEFINITIONS_NORMALISATIONS_H_
#define RT_SDK_DEFINITIONS_NORMALISATIONS_H_

#include "rt/operations.h"
#include "rt/sdk/definition.h"

namespace rt::sdk::definitions {

using enum OperandDefinition::Property;
using enum Definition::Trait;

// Vectors of one number for each channel.
inline constexpr OperandDefinition kGamma = {"gamma", "[C]", kWide}, kBeta = {"beta", "[C]", kWide},
                                   kRunningMean = {"running_mean", "[C]", kWide},
                                   kRunningVar = {"running_var", "[C]", kWide},
                                   kGradientOfGamma = {"dgamma", "[C]", kWide},
                                   kGradientOfBeta = {"dbeta", "[C]", kWide},
                                   kMoments = {"moments", "[M]", kWide};

inline constexpr Definition kBatchNorm[] = {
    {RT_OP_BATCH_NORM,
     {{"x", "[R*,C]", kRows | kExact}, kGamma, kBeta, kRunningMean, kRunningVar},
     {{"y", "[R*,C]", kRows}, kRunningMean, kRunningVar},
     {{RT_ATTR_EPSILON}, {RT_ATTR_MOMENTUM, 0.1}},
     kSavesData | kPostOperations | kForeignLayouts},
    {RT_OP_BATCH_NORM_INFERENCE,
     {{"x", "[R*,C]", kRows}, kGamma, kBeta, kRunningMean, kRunningVar},
     {{"y", "[R*,C]", kRows}},
     {{RT_ATTR_EPSILON}},
     kPostOperations | kForeignLayouts},
    {RT_OP_BATCH_NORM_BACKWARD,
     {{"dy", "[R*,C]", kRows}, {"x", "[R*,C]", kRows | kExact}, kGamma},
     {{"dx", "[R*,C]", kRows}, kGradientOfGamma, kGradientOfBeta},
     {{RT_ATTR_EPSILON}},
     kSavesData | kForeignLayouts},
};

inline constexpr Definition kBatchNormOfSeveralRanks[] = {
    {RT_OP_BATCH_NORM_STATISTICS,
     {{"x", "[N,S*,C]", kRows | kExact}, {"weight", "[N,1,1]", kRows | kWide}},
     {{"part", "[A,M]", kWide}}},
    {RT_OP_BATCH_NORM_MERGE,
     {{"parts", "[G,M]", kRows | kWide}, kRunningMean, kRunningVar},
     {kMoments, kRunningMean, kRunningVar},
     {{RT_ATTR_MOMENTUM, 0.1}}},
    {RT_OP_BATCH_NORM_APPLY,
     {{"x", "[R*,C]", kRows}, kGamma, kBeta, kMoments},
     {{"y", "[R*,C]", kRows}},
     {{RT_ATTR_EPSILON}},
     kPostOperations},
    {RT_OP_BATCH_NORM_BACKWARD_STATISTICS,
     {{"dy", "[R*,C]", kRows}, {"x", "[R*,C]", kRows}, kMoments},
     {{"sums", "[A,B]", kWide}},
     {{RT_ATTR_EPSILON}}},
    {RT_OP_BATCH_NORM_BACKWARD_APPLY,
     {{"dy", "[N,S*,C]", kRows},
      {"x", "[N,S*,C]", kRows},
      kGamma,
      kMoments,
      {"sums", "[B]", kWide},
      {"weight", "[N,1,1]", kRows | kWide}},
     {{"dx", "[N,S*,C]", kRows}},
     {{RT_ATTR_EPSILON}}},
};

inline constexpr Definition kLayerNorm[] = {
    {RT_OP_LAYER_NORM,
     {{"x", "[R*,D]", kRows | kExact}, {"gamma", "[D]", kWide}, {"beta", "[D]", kWide}},
     {{"y", "[R*,D]", kRows}},
     {{RT_ATTR_EPSILON}},
     kSavesData},
    {RT_OP_LAYER_NORM_BACKWARD,
     {{"dy", "[R*,D]", kRows}, {"x", "[R*,D]", kRows | kExact}, {"gamma", "[D]", kWide}},
     {{"dx", "[R*,D]", kRows}, {"dgamma", "[D]", kWide}, {"dbeta", "[D]", kWide}},
     {{RT_ATTR_EPSILON}},
     kSavesData | kPostOperations},
    {RT_OP_RMS_NORM,
     {{"x", "[R*,D]", kRows}, {"gamma", "[D]", kWide}},
     {{"y", "[R*,D]", kRows}},
     {{RT_ATTR_EPSILON}},
     kSavesData},
    {RT_OP_RMS_NORM_BACKWARD,
     {{"dy", "[R*,D]", kRows}, {"x", "[R*,D]", kRows}, {"gamma", "[D]", kWide}},
     {{"dx", "[R*,D]", kRows}, {"dgamma", "[D]", kWide}},
     {{RT_ATTR_EPSILON}},
     kSavesData | kPostOperations},
};

}  // namespace rt::sdk::definitions

#endif  // RT_SDK_DEFINITIONS_NORMALISATIONS_H_
