// Checks how spans are grouped and ordered.
#include "runtime/analysis/spans.h"

#include <gmock/gmock.h>

namespace runtime::analysis {
namespace {

using exec::Span;
using testing::ElementsAre;

Span span(int node, int64_t step, int64_t begin, int64_t end) {
  Span s;
  s.kind = exec::SpanKind::kOperation;
  s.node = node;
  s.step = step;
  s.begin_ns = begin;
  s.end_ns = end;
  return s;
}

std::vector<std::string> groups(const std::vector<Span>& spans) {
  std::vector<std::string> list;
  for (const SpanGroup& g :
       group_spans(spans, 0, spans.size(), [](const Span& s) { return std::to_string(s.node); })) {
    list.push_back(g.name + ": " + std::to_string(g.begin) + "-" + std::to_string(g.end) + ", " +
                   std::to_string(g.begin_ns) + "-" + std::to_string(g.end_ns));
  }
  return list;
}

TEST(GroupSpans, JoinsWhatFollowsWithoutAGap) {
  EXPECT_THAT(groups({span(1, 0, 0, 5), span(1, 0, 5, 9), span(2, 0, 9, 10)}),
              ElementsAre("1: 0-2, 0-9", "2: 2-3, 9-10"));
  EXPECT_THAT(groups({span(1, 0, 0, 5), span(1, 0, 6, 9)}),
              ElementsAre("1: 0-1, 0-5", "1: 1-2, 6-9"))
      << "a gap";
  EXPECT_THAT(groups({span(1, 0, 0, 5), span(1, 1, 5, 9)}),
              ElementsAre("1: 0-1, 0-5", "1: 1-2, 5-9"))
      << "two steps";
  EXPECT_TRUE(groups({}).empty());
}

TEST(SpansOf, AreInTheOrderOfTheirBegin) {
  train::Recording recording;
  recording.spans = {span(1, 0, 7, 8), span(2, 0, 1, 2), span(3, 0, 4, 5)};
  recording.spans[2].kind = exec::SpanKind::kStep;
  const std::vector<Span> found = spans_of(recording, exec::SpanKind::kOperation);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].node, 2);
  EXPECT_EQ(found[1].node, 1);
}

}  // namespace
}  // namespace runtime::analysis
