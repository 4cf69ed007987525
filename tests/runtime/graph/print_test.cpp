// Checks the text and the drawing of a small graph.
#include "runtime/graph/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/build.h"

namespace runtime::graph {
namespace {

using ::testing::HasSubstr;

class PrintTest : public testing::Test {
 protected:
  PrintTest() {
    Build build(graph_);
    build.layer = "fc \"1\"";
    const ValueId x = graph_.add_value("x", ValueKind::kInput, {4, 6}, RT_FLOAT64);
    const ValueId flat = graph_.add_value("parameters", ValueKind::kParameter, {40}, RT_FLOAT64);
    Value w;
    w.dtype = RT_FLOAT64;
    w.dims = {5, 6};
    w.base = flat;
    w.offset = 64;
    build.all_reduce(build.matmul(x, graph_.add_value(w), false, true), 2);
  }
  Graph graph_;
};

TEST_F(PrintTest, TextHasALineForEachBufferAndEachNode) {
  EXPECT_EQ(to_text(graph_),
            "input     %0 [4, 6] float64 x\n"
            "parameter %1 [40] float64 parameters\n"
            "\n"
            "forward  fc \"1\"               %3 [4, 5] float64 = matmul(%0 [4, 6] float64, "
            "%2@%1+64 [5, 6] float64) transpose_a=0 transpose_b=1\n"
            "forward  fc \"1\"               %4 [4, 5] float64 = all_reduce(%3 [4, 5] float64) "
            "communicator=2 token=0\n"
            "forward  fc \"1\"               %4 [4, 5] float64 = wait all_reduce(%3 [4, 5] "
            "float64, %4 [4, 5] float64) communicator=2 token=0\n");
}

TEST_F(PrintTest, DotHasABoxForEachNodeAndAnArrowForEachOperandThatANodeWrites) {
  const std::string dot = to_dot(graph_);
  EXPECT_THAT(dot, HasSubstr("n0 [label=\"matmul of fc \\\"1\\\"\"];"));
  EXPECT_THAT(dot, HasSubstr("n0 -> n1 [label=\"[4, 5]\"];"));
  EXPECT_THAT(dot, HasSubstr("n1 -> n2"));
}

}  // namespace
}  // namespace runtime::graph
