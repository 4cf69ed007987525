// The rows of all operations of the contract, in the order of plugins/operations.md within each
// family.
#ifndef RT_SDK_DEFINITIONS_H_
#define RT_SDK_DEFINITIONS_H_

#include <span>

#include "rt/sdk/definitions/attentions.h"
#include "rt/sdk/definitions/elements.h"
#include "rt/sdk/definitions/images.h"
#include "rt/sdk/definitions/losses.h"
#include "rt/sdk/definitions/normalisations.h"

namespace rt::sdk {

// The families: rows that lie together.
inline constexpr std::span<const Definition> kDefinitions[] = {
    definitions::kProducts,  definitions::kConvolutions,
    definitions::kPoolings,  definitions::kPooledConvolutions,
    definitions::kElements,  definitions::kReductions,
    definitions::kSoftmax,   definitions::kLosses,
    definitions::kBatchNorm, definitions::kBatchNormOfSeveralRanks,
    definitions::kLayerNorm, definitions::kAttention,
    definitions::kMovement,  definitions::kOptimizers};

// The row of an operation, or nullptr if the contract has none of this name, as for the operations
// of a plugin.
constexpr const Definition* find_definition(std::string_view name) {
  for (const std::span<const Definition> family : kDefinitions) {
    for (const Definition& row : family) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

// Whether the operation `name` is one of the contract and has one of the traits
// (Definition::Trait).
constexpr bool has_trait(std::string_view name, uint32_t any) {
  const Definition* const row = find_definition(name);
  return row != nullptr && row->has(any);
}

}  // namespace rt::sdk

#endif  // RT_SDK_DEFINITIONS_H_
