// In how many ways a device offers to do one operation, and how exact it says that each is. Shared
// by the conformance cases and by tests/differential.
#ifndef PLUGINS_CONFORMANCE_VARIANTS_H_
#define PLUGINS_CONFORMANCE_VARIANTS_H_

#include <string>
#include <vector>

#include "plugins/conformance/execution.h"

namespace plugins::conformance {

// The operation as it is, then one variant for each candidate that the device lists for it in
// canonical layouts and, where the contract allows foreign ones, in any layout. The inputs say
// canonical throughout. The device fuses all post-operations of `operation` in canonical layouts;
// in other layouts it may fuse fewer, and has no variant there then. Throws Violation if the
// answers of the device contradict each other.
std::vector<host::Operation> variants(host::Device& device, const host::Operation& operation);

// Keeps the first `fused` post-operations and their operands, which follow the own inputs in order.
void trim_post_operations(Case& c, uint32_t fused);

// Two outputs may share memory with inputs at the same time: each pair that the plan offers alone,
// and all of them together, as optimizers do.
std::vector<InPlace> in_place_pairs(const Execution& execution);

// Throws Violation unless the operands of each pair take the same number of bytes.
void expect_equal_sizes(host::Device& device, const host::Operation& operation,
                        const InPlace& pairs);

// "conv2d nhwc (algorithm 4294967297, aBcd16b)": implementation, algorithm and foreign layouts.
std::string describe(const host::Operation& operation, const Execution& execution,
                     host::Device& device);

// By how much one output may differ from the reference, relative to its norm. What is float32
// beside operands in 16 bits was not rounded: what the device claims is not about that, which has a
// fixed bound instead. Throws Violation if the device claims more than the contract accepts.
double allowed_error(const Case& c, const rt_tensor_desc& output, const host::Support& support);

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_VARIANTS_H_
