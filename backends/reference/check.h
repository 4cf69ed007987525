// Checks of operands and attributes. Every function throws what make_kernel promises, with actual
// and expected values.
#ifndef BACKENDS_REFERENCE_CHECK_H_
#define BACKENDS_REFERENCE_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/reference/kernel.h"

namespace backends::reference {

using rt::sdk::Operation;
using Dims = std::vector<int64_t>;

Dims dims_of(const rt_tensor_desc& tensor);
int64_t product(const Dims& dims);
// Strides in elements of a dense row-major tensor.
Dims strides_of(const Dims& dims);
std::string to_string(const Dims& dims);

// The operation's own inputs (without operands of post-operations) and its outputs.
void expect_counts(const Operation& op, uint32_t inputs, uint32_t outputs);

void expect_input(const Operation& op, uint32_t i, const char* name, rt_dtype dtype,
                  const Dims& dims);
void expect_output(const Operation& op, uint32_t i, const char* name, rt_dtype dtype,
                   const Dims& dims);
const rt_tensor_desc& input_of_rank(const Operation& op, uint32_t i, const char* name,
                                    int32_t rank);
const rt_tensor_desc& output_of_rank(const Operation& op, uint32_t i, const char* name,
                                     int32_t rank);
const rt_tensor_desc& input_of_min_rank(const Operation& op, uint32_t i, const char* name,
                                        int32_t rank);

// The type that the operation computes in, taken from that operand. Refusal unless float32 or
// float64.
rt_dtype floating_input(const Operation& op, uint32_t i, const char* name);
rt_dtype floating_output(const Operation& op, uint32_t i, const char* name);

// An attribute that must be at least `minimum`.
int64_t integer_at_least(const Operation& op, const char* name, int64_t fallback, int64_t minimum);
// An axis of a tensor of that rank.
int64_t axis_of(const Operation& op, int32_t rank);

// The checks that hold for all operations: struct sizes, ranks, non-negative dims, canonical
// layouts (RT_LAYOUT_ANY too if `any_layout`), post-operations.
void expect_well_formed(const Operation& op, bool any_layout);

// Calls body.operator()<float>() or <double>().
template <typename Body>
Kernel for_floating(rt_dtype dtype, Body&& body) {
  return dtype == RT_FLOAT64 ? body.template operator()<double>()
                             : body.template operator()<float>();
}

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_CHECK_H_
