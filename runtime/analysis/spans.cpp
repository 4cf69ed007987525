// Sorts spans, and names layer, operation and phase of each.
#include "runtime/analysis/spans.h"

#include <algorithm>

#include "runtime/graph/print.h"

namespace runtime::analysis {

using exec::Span;

std::vector<Span> spans_of(const train::Recording& recording, exec::SpanKind kind) {
  std::vector<Span> found;
  for (const Span& span : recording.spans) {
    if (span.kind == kind) found.push_back(span);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  return found;
}

const graph::Node& node_of(const Span& span) {
  return span.program->graph().nodes.at(static_cast<size_t>(span.node));
}

std::vector<SpanGroup> group_spans(const std::vector<Span>& spans, size_t begin, size_t end,
                                   const std::function<std::string(const Span&)>& name) {
  std::vector<SpanGroup> groups;
  for (size_t i = begin; i < end; ++i) {
    const std::string own = name(spans[i]);
    const bool follows = i > begin && groups.back().name == own &&
                         spans[i].step == spans[i - 1].step &&
                         spans[i].begin_ns == spans[i - 1].end_ns;
    if (!follows) groups.push_back({own, i, i, spans[i].begin_ns, 0});
    groups.back().end = i + 1;
    groups.back().end_ns = spans[i].end_ns;
  }
  return groups;
}

std::vector<SpanGroup> group_by_phase(const std::vector<Span>& operations) {
  return group_spans(operations, 0, operations.size(),
                     [](const Span& span) { return graph::name_of(node_of(span).phase); });
}

std::vector<SpanGroup> group_by_layer(const std::vector<Span>& operations, const SpanGroup& phase) {
  return group_spans(operations, phase.begin, phase.end,
                     [](const Span& span) { return node_of(span).layer; });
}

}  // namespace runtime::analysis
