// Checks how tables give up text and columns until they fit.
#include "runtime/terminal/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace runtime::terminal {
namespace {

using Kind = Column::Kind;

Table example() {
  Table table({{"layer"},
               {"implementation", Kind::kText, 2, Keep::kEnd},
               {"us", Kind::kNumber},
               {"GFLOP/s", Kind::kNumber, 1}});
  table.add({"conv1", "onednn:convolution:avx512", "1.5", "300.0"});
  table.add({"画像", "native", "12.5", "0.1"});
  table.add_wide("the sum of all layers", {"14.0", ""});
  return table;
}

TEST(Table, IsAsWideAsItsContent) {
  EXPECT_EQ(example().text(0),
            "layer  implementation               us  GFLOP/s\n"
            "conv1  onednn:convolution:avx512   1.5    300.0\n"
            "画像   native                     12.5      0.1\n"
            "the sum of all layers             14.0\n");
  EXPECT_EQ(example().text(47), example().text(0));
}

TEST(Table, FirstShortensTexts) {
  EXPECT_EQ(example().text(33),
            "layer implementation   us GFLOP/s\n"
            "conv1 ..ution:avx512  1.5   300.0\n"
            "画像  native         12.5     0.1\n"
            "the sum of all lay.. 14.0\n");
}

TEST(Table, ThenLeavesOutColumnsAndSaysSo) {
  EXPECT_EQ(example().text(24),
            "layer implementat..   us\n"
            "conv1 ..tion:avx512  1.5\n"
            "画像  native        12.5\n"
            "the sum of all la.. 14.0\n"
            "not shown in 24 columns:\n"
            "  GFLOP/s (a wider\n"
            "  terminal or a pipe\n"
            "  gets all)\n");
  EXPECT_TRUE(example().text(12).starts_with("layer   us\nconv1  1.5\n画像  12.5\n"));
}

// Whatever the terminal, no line is longer, as long as the columns that have to stay fit.
TEST(Table, FitsEveryTerminal) {
  for (int columns = 20; columns < 60; ++columns) {
    std::istringstream lines(example().text(columns));
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(width(line), static_cast<size_t>(columns)) << line;
  }
}

TEST(Table, AColumnWithoutContentIsNone) {
  Table table({{"a"}, {"why not"}, {"b"}});
  table.add({"1", "", "2"});
  EXPECT_EQ(table.text(0), "a  b\n1  2\n");
  EXPECT_EQ(table.text(1), "a b\n1 2\n") << "columns that have to stay are there";
}

}  // namespace
}  // namespace runtime::terminal
