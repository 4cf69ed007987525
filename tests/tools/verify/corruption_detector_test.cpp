// Detects a value that changes although no operation has written it.
#include "tools/verify/corruption_detector.h"

#include <gtest/gtest.h>

#include "runtime/exec/encode.h"

namespace runtime::verify {
namespace {

data::HostTensor float_tensor(const std::vector<double>& numbers) {
  return {RT_FLOAT32, {static_cast<int64_t>(numbers.size())}, exec::encode(numbers, RT_FLOAT32)};
}

graph::Value value(const std::string& name, graph::Dims dims) {
  graph::Value v;
  v.name = name;
  v.dims = std::move(dims);
  return v;
}

TEST(CorruptionDetector, SeesAChangeBetweenWriterAndReader) {
  graph::Graph graph;
  const graph::ValueId a = graph.add_value(value("a", {2})), b = graph.add_value(value("b", {2}));
  CorruptionDetector detector(graph);
  detector.wrote(a, float_tensor({1, 2}), 3);
  EXPECT_EQ(detector.changed_since(a, float_tensor({1, 2}), 4), std::nullopt);
  EXPECT_EQ(detector.changed_since(a, float_tensor({1, 5}), 6), 3u);
  // A value that was never written is recorded at its first reader.
  EXPECT_EQ(detector.changed_since(b, float_tensor({7, 7}), 4), std::nullopt);
  EXPECT_EQ(detector.changed_since(b, float_tensor({7, 8}), 9), 4u);
}

TEST(CorruptionDetector, WritingAViewChangesWhatItOverlaps) {
  graph::Graph graph;
  const graph::ValueId whole = graph.add_value(value("whole", {4}));
  graph::Value part = value("part", {2});
  part.base = whole;
  part.offset = 2 * sizeof(float);
  const graph::ValueId second = graph.add_value(part);
  part.offset = 0;
  const graph::ValueId first = graph.add_value(part);
  CorruptionDetector detector(graph);
  detector.wrote(whole, float_tensor({1, 2, 3, 4}), 0);
  detector.wrote(first, float_tensor({1, 2}), 1);
  detector.wrote(second, float_tensor({5, 6}), 2);
  EXPECT_EQ(detector.changed_since(whole, float_tensor({1, 2, 5, 6}), 3), std::nullopt);
  EXPECT_EQ(detector.changed_since(first, float_tensor({1, 9}), 3), 1u);
}

}  // namespace
}  // namespace runtime::verify
