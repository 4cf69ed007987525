// The spans of a recording, by kind and in order.
#ifndef RUNTIME_ANALYSIS_SPANS_H_
#define RUNTIME_ANALYSIS_SPANS_H_

#include <functional>
#include <string>
#include <vector>

#include "runtime/train/profiler.h"

namespace runtime::analysis {

// Consecutive operations that belong together: a phase, or a layer in it.
struct SpanGroup {
  std::string name;
  size_t begin = 0, end = 0;  // indices into the list of spans, end excluded
  int64_t begin_ns = 0, end_ns = 0;
};

// The spans of one kind, in the order of their begin.
std::vector<exec::Span> spans_of(const train::Recording& recording, exec::SpanKind kind);
// The node of an operation.
const graph::Node& node_of(const exec::Span& span);

// Groups spans[begin, end). Spans are in one group if they have the same name and step and if each
// begins where the one before it ends.
std::vector<SpanGroup> group_spans(const std::vector<exec::Span>& spans, size_t begin, size_t end,
                                   const std::function<std::string(const exec::Span&)>& name);
std::vector<SpanGroup> group_by_phase(const std::vector<exec::Span>& operations);
// The same for the layers of one phase.
std::vector<SpanGroup> group_by_layer(const std::vector<exec::Span>& operations,
                                      const SpanGroup& phase);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_SPANS_H_
