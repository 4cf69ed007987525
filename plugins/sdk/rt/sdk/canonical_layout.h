// For plugins that know the canonical layout only: checks of layouts, and the slots of the table.
#ifndef RT_SDK_CANONICAL_LAYOUT_H_
#define RT_SDK_CANONICAL_LAYOUT_H_

#include <cstdio>
#include <limits>

#include "rt/sdk/operation.h"
#include "rt/sdk/refusal.h"
#include "rt/sdk/structs.h"

namespace rt::sdk {

// Bytes of the tensor in the canonical layout.
inline uint64_t tensor_bytes(const rt_tensor_desc& tensor) {
  return static_cast<uint64_t>(element_count(tensor)) * dtype_bytes(tensor.dtype);
}

// Throws Error (RT_ERROR_INVALID_ARGUMENT) unless rank and dims of a tensor are possible ones, and
// Refusal if its layout is neither canonical nor, with `any_layout`, RT_LAYOUT_ANY.
inline void expect_canonical(const Operation& op, bool output, uint32_t i, bool any_layout) {
  const rt_tensor_desc& tensor = output ? op.output(i) : op.input(i);
  const char* const kind = output ? "output" : "operand";
  if (tensor.rank < 0 || tensor.rank > RT_MAX_RANK)
    op.fail(format("%s %u has rank %d, expected 0..%d", kind, i, tensor.rank, RT_MAX_RANK));
  int64_t room = std::numeric_limits<int64_t>::max() / 8;
  for (int32_t d = 0; d < tensor.rank; ++d) {
    const int64_t size = tensor.dims[d];
    if (size < 0 || size > room) {
      op.fail(
          format("%s %u: dimension %d is %lld, expected a size >= 0 whose tensor fits the "
                 "address space",
                 kind, i, d, static_cast<long long>(size)));
    }
    if (size > 0) room /= size;
  }
  if (tensor.layout == RT_LAYOUT_CANONICAL || (any_layout && tensor.layout == RT_LAYOUT_ANY))
    return;
  throw Refusal(static_cast<int32_t>(i) + (output ? kFirstOutput : 0),
                format("%s: %s %u has layout 0x%llx; only the canonical layout (0) is known, "
                       "reorder with copy",
                       op.desc().name, kind, i, static_cast<unsigned long long>(tensor.layout)));
}

// The same for all operands. `any_layout` is true in a query and false for a plan.
inline void expect_canonical(const Operation& op, bool any_layout) {
  for (uint32_t i = 0; i < op.input_count(); ++i) expect_canonical(op, false, i, any_layout);
  for (uint32_t i = 0; i < op.output_count(); ++i) expect_canonical(op, true, i, any_layout);
}

// Throws Error (RT_ERROR_UNSUPPORTED) for a description with another layout.
inline void expect_canonical(const rt_tensor_desc* tensor) {
  check_input(tensor);
  if (tensor->layout == RT_LAYOUT_CANONICAL) return;
  throw Error(RT_ERROR_UNSUPPORTED,
              format("layout 0x%llx is unknown; this plugin has the canonical layout (0) only",
                     static_cast<unsigned long long>(tensor->layout)));
}

// Implements rt_kernel_api.layout_bytes: RT_ERROR_UNSUPPORTED for every layout but the canonical
// one.
inline rt_status canonical_layout_bytes(rt_device*, const rt_tensor_desc* tensor, uint64_t* bytes,
                                        rt_error* error) {
  return guard(error, [&] {
    expect_canonical(tensor);
    *bytes = tensor_bytes(*tensor);
  });
}
// Implements rt_kernel_api.layout_name in the same way.
inline rt_status canonical_layout_name(rt_device*, const rt_tensor_desc* tensor, char* name,
                                       uint64_t capacity, rt_error* error) {
  return guard(error, [&] {
    expect_canonical(tensor);
    std::snprintf(name, capacity, "canonical");
  });
}

}  // namespace rt::sdk

#endif  // RT_SDK_CANONICAL_LAYOUT_H_
