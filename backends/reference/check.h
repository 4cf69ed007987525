// Checks of operands and attributes: those of rt/sdk/expect.h, and those that only the reference
// needs. If a check fails, the function throws the errors of make_kernel, with the actual and the
// expected value in the message. `name` is the operand's name in plugins/operations.md.
#ifndef BACKENDS_REFERENCE_CHECK_H_
#define BACKENDS_REFERENCE_CHECK_H_

#include <cstdint>

#include "backends/reference/kernel.h"
#include "rt/sdk/expect.h"

namespace backends::reference {

using rt::sdk::Dims;
using rt::sdk::Operation;

using rt::sdk::dims_of;
using rt::sdk::expect_counts;
using rt::sdk::expect_input;
using rt::sdk::expect_output;
using rt::sdk::input_of_min_rank;
using rt::sdk::input_of_rank;
using rt::sdk::integer_at_least;
using rt::sdk::output_of_rank;
using rt::sdk::product;
using rt::sdk::strides_of;
using rt::sdk::to_string;

// The type that the operation computes in, which is that of input or output i. Throws Refusal
// unless it is float32 or float64.
rt_dtype floating_input(const Operation& op, uint32_t i, const char* name);
rt_dtype floating_output(const Operation& op, uint32_t i, const char* name);

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

// Makes a kernel whose `run` calls body.operator()<T>(buffers) with that T. The caller has set the
// other members of `kernel`.
template <typename Body>
Kernel floating_kernel(rt_dtype dtype, Kernel kernel, Body body) {
  return for_floating(dtype, [&]<typename T>() {
    kernel.run = [body](const Buffers& b) { body.template operator()<T>(b); };
    return std::move(kernel);
  });
}

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_CHECK_H_
