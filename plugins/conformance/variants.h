// Lists the ways in which a device offers to run one operation, and the accuracy that the device
// claims. Used by the conformance cases and by tests/differential.
#ifndef PLUGINS_CONFORMANCE_VARIANTS_H_
#define PLUGINS_CONFORMANCE_VARIANTS_H_

#include <string>
#include <vector>

#include "plugins/conformance/execution.h"

namespace plugins::conformance {

// Returns the operation as it is, followed by one variant for each candidate that the device lists
// for it in canonical layouts and, where the contract allows foreign layouts, in any layout. All
// inputs of `operation` must have canonical layouts, and in these the device must fuse all its
// post-operations. In other layouts the device may fuse fewer; it then has no variant there. Throws
// Violation if the answers of the device contradict each other.
std::vector<host::Operation> variants(host::Device& device, const host::Operation& operation);

// Keeps only the first `fused` post-operations, their operands and their outputs, which follow the
// operation's own inputs and outputs in order.
void trim_post_operations(Case& c, uint32_t fused);

// The ways to run a plan in place: each pair that the plan offers alone and, because several
// outputs may use the memory of inputs at the same time, as in optimizers, all pairs together.
std::vector<InPlace> in_place_pairs(const Execution& execution);

// Throws Violation unless the operands of each pair take the same number of bytes.
void expect_equal_sizes(host::Device& device, const host::Operation& operation,
                        const InPlace& pairs);

// A text like "conv2d nhwc (algorithm 4294967297, aBcd16b)": implementation, algorithm and foreign
// layouts.
std::string describe(const host::Operation& operation, const Execution& execution,
                     host::Device& device);

// The largest error of one output relative to the norm of the reference. If operands have 16 bits,
// an output in float32 has a fixed bound: it is not rounded to 16 bits, and the tolerance that the
// device claims does not apply to it. Throws Violation if the device claims a larger tolerance than
// the contract accepts.
double allowed_error(const Case& c, const rt_tensor_desc& output, const host::Support& support);

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_VARIANTS_H_
