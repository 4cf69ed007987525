// Which operands may have other layouts than the canonical one.
#ifndef RT_SDK_FOREIGN_LAYOUT_H_
#define RT_SDK_FOREIGN_LAYOUT_H_

#include <cstdint>
#include <string_view>

#include "rt/sdk/definitions.h"

namespace rt::sdk {

// Whether an operand of this rank of the operation `name` may have a foreign layout (the section
// "Layouts" of operations.md). All other operands are always canonical.
inline bool takes_foreign_layout(std::string_view name, int32_t rank) {
  return rank >= 2 && has_trait(name, Definition::kForeignLayouts);
}

// Row layouts, since minor version 1 ("Layouts" of operations.md): each row, the vector along the
// last dimension, is dense, and rows lie in row-major order, each `row_length` elements behind the
// one before. The id says that it is one of these and how long a row is, so that it means the same
// for every tensor with the same number of rows, whatever its leading dimensions are.
inline constexpr uint64_t kRowLayout = UINT64_C(0x524f5753) << 32;

inline constexpr uint64_t row_layout(uint32_t row_length) { return kRowLayout | row_length; }
inline constexpr bool is_row_layout(uint64_t layout) { return layout >> 32 == kRowLayout >> 32; }
// Elements from the beginning of a row to that of the next one.
inline constexpr int64_t row_length(uint64_t layout) {
  return static_cast<int64_t>(layout & UINT32_MAX);
}

// Whether the operation `name` follows the row layout of its first input: the host may ask for it,
// and then for the same one in every output with the dims of that input. It never asks for
// RT_LAYOUT_ANY.
inline bool follows_row_layout(std::string_view name) {
  return has_trait(name, Definition::kRowLayouts);
}

}  // namespace rt::sdk

#endif  // RT_SDK_FOREIGN_LAYOUT_H_
