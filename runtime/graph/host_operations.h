// Operations that the host computes for a device that cannot: random masks, numbers that depend on
// the step, and conversions between types. Their nodes have no kernel. Their operands lie in device
// memory like all others; exec/host_kernel.h copies them.
#ifndef RUNTIME_GRAPH_HOST_OPERATIONS_H_
#define RUNTIME_GRAPH_HOST_OPERATIONS_H_

#include "runtime/graph/graph.h"

namespace runtime::graph {

// step int64 [1], base int64 [1] -> the factor of each element of x in `dropout`, which has the
// same attributes: 0, or 1 / (1 - probability).
inline constexpr const char* kDropoutMask = "host dropout_mask";
// documents int32 -> 1 for each pair of a query and a key [N,H,T,S] of one document, else 0; see
// `dot_product_attention`, which has the same attributes.
inline constexpr const char* kAttentionDocuments = "host attention_documents";
// step, base -> the factor of each weight [N,H,T,S] in the dropout of `dot_product_attention`.
inline constexpr const char* kAttentionDropout = "host attention_dropout";
// step int64 [1] -> 1 - beta^step [1], with the attribute "beta": what `adamw` divides a moment by.
inline constexpr const char* kBiasCorrection = "host bias_correction";

// x -> y, as `cast`.
inline constexpr const char* kHostCast = "host cast";

inline bool is_host_operation(std::string_view op) { return op.starts_with("host "); }

// Whether a kernel of the device computes the node.
inline bool has_kernel(const Node& node) { return !node.collective && !is_host_operation(node.op); }

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_HOST_OPERATIONS_H_
