// Checks of operands and attributes. If a check fails, the function throws the errors of
// make_kernel, with the actual and the expected value in the message. `name` is the operand's name
// in plugins/operations.md.
#ifndef BACKENDS_REFERENCE_CHECK_H_
#define BACKENDS_REFERENCE_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/reference/kernel.h"

namespace backends::reference {

using rt::sdk::Operation;
using Dims = std::vector<int64_t>;

// The dims of a tensor, and the product of dims.
Dims dims_of(const rt_tensor_desc& tensor);
int64_t product(const Dims& dims);
// Strides, in elements, of a dense row-major tensor.
Dims strides_of(const Dims& dims);
// For messages, for example "[2, 3]".
std::string to_string(const Dims& dims);

// Checks the number of the operation's own inputs and outputs (without those of post-operations).
void expect_counts(const Operation& op, uint32_t inputs, uint32_t outputs);

// Check the type and the dims of input or output i.
void expect_input(const Operation& op, uint32_t i, const char* name, rt_dtype dtype,
                  const Dims& dims);
void expect_output(const Operation& op, uint32_t i, const char* name, rt_dtype dtype,
                   const Dims& dims);
// Check the rank, or least rank, of input or output i and return its description.
const rt_tensor_desc& input_of_rank(const Operation& op, uint32_t i, const char* name,
                                    int32_t rank);
const rt_tensor_desc& output_of_rank(const Operation& op, uint32_t i, const char* name,
                                     int32_t rank);
const rt_tensor_desc& input_of_min_rank(const Operation& op, uint32_t i, const char* name,
                                        int32_t rank);

// The type that the operation computes in, which is that of input or output i. Throws Refusal
// unless it is float32 or float64.
rt_dtype floating_input(const Operation& op, uint32_t i, const char* name);
rt_dtype floating_output(const Operation& op, uint32_t i, const char* name);

// The value of an attribute, which must be at least `minimum`; `fallback` if it is absent.
int64_t integer_at_least(const Operation& op, const char* name, int64_t fallback, int64_t minimum);
// The attribute `axis`, which must be an axis of a tensor of that rank.
int64_t axis_of(const Operation& op, int32_t rank);

// The checks that all operations share: struct sizes, ranks, non-negative dims, canonical layouts
// (or RT_LAYOUT_ANY if `any_layout`), attributes, post-operations.
void expect_well_formed(const Operation& op, bool any_layout);

// Calls body.operator()<T>() with T = double for RT_FLOAT64 and T = float for all other types.
template <typename Body>
Kernel for_floating(rt_dtype dtype, Body&& body) {
  return dtype == RT_FLOAT64 ? body.template operator()<double>()
                             : body.template operator()<float>();
}

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_CHECK_H_
