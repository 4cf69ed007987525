// Definitions of "Attention" and "Rotary positions".
#ifndef RT_SDK_DEFINITIONS_ATTENTIONS_H_
#define RT_SDK_DEFINITIONS_ATTENTIONS_H_

#include "rt/operations.h"
#include "rt/sdk/definition.h"

namespace rt::sdk::definitions {

using enum OperandDefinition::Property;
using enum Definition::Trait;

inline constexpr AttributeDefinitions kDotProducts = {
    {RT_ATTR_HEADS},     {RT_ATTR_KEY_HEADS, 0}, {RT_ATTR_CAUSAL, 0},
    {RT_ATTR_WINDOW, 0}, {RT_ATTR_SCALE, 0},     {RT_ATTR_PROBABILITY, 0},
    {RT_ATTR_SEED, 0},   {RT_ATTR_STREAM, 0},    {RT_ATTR_FIRST_HEAD, 0}};

inline constexpr Definition kAttention[] = {
    {RT_OP_ATTENTION,
     {{"qkv", "[N,T,F]", kRows}},
     {{"y", "[N,T,C]", kRows}},
     {{RT_ATTR_HEADS}, {RT_ATTR_CAUSAL, 0}},
     kSavesData},
    {RT_OP_ATTENTION_BACKWARD,
     {{"dy", "[N,T,C]", kRows}, {"qkv", "[N,T,F]", kRows}, {"y", "[N,T,C]", kRows}},
     {{"dqkv", "[N,T,F]", kRows}},
     {{RT_ATTR_HEADS}, {RT_ATTR_CAUSAL, 0}},
     kSavesData},
    {RT_OP_ROTARY,
     {{"x", "[R*,C]", kRows}, {"turns", "[P*,D]", kWide}},
     {{"y", "[R*,C]", kRows}},
     {{RT_ATTR_HEADS}, {RT_ATTR_INVERSE, 0}}},
    {RT_OP_DOT_PRODUCT_ATTENTION,
     {{"q", "[N,T,F]", kRows},
      {"k", "[N,S,G]", kRows},
      {"v", "[N,S,H]", kRows},
      {"step", "[1]", kCounter | kOptional},
      {"base", "[1]", kCounter | kOptional},
      {"documents", "[N,M]", kRows | kIndex | kOptional}},
     {{"y", "[N,T,E]", kRows}},
     kDotProducts,
     kSavesData},
    {RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD,
     {{"dy", "[N,T,E]", kRows},
      {"q", "[N,T,F]", kRows},
      {"k", "[N,S,G]", kRows},
      {"v", "[N,S,H]", kRows},
      {"y", "[N,T,E]", kRows},
      {"step", "[1]", kCounter | kOptional},
      {"base", "[1]", kCounter | kOptional},
      {"documents", "[N,M]", kRows | kIndex | kOptional}},
     {{"dq", "[N,T,F]", kRows}, {"dk", "[N,S,G]", kRows}, {"dv", "[N,S,H]", kRows}},
     kDotProducts,
     kSavesData},
};

}  // namespace rt::sdk::definitions

#endif  // RT_SDK_DEFINITIONS_ATTENTIONS_H_
