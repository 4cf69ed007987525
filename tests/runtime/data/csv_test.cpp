#include "runtime/data/csv.h"

#include <gmock/gmock.h>

#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CsvOptions options(const std::string& target, bool classification = true,
                   std::vector<std::string> features = {}) {
  return {std::move(features), target, classification, 0};
}

TEST(Csv, HeaderNamesAndTextLabels) {
  const CsvTable table =
      parse_csv("length,width,kind\n5.1,3.5,setosa\n-7,+3.2e0,versicolor\n6,3,setosa\n", "x",
                options("kind"));
  EXPECT_THAT(table.columns, ElementsAre("length", "width"));
  EXPECT_THAT(table.part.floats, ElementsAre(5.1f, 3.5f, -7, 3.2f, 6, 3));
  EXPECT_THAT(table.part.targets.labels, ElementsAre(0, 1, 0));
  EXPECT_EQ(table.part.targets.classes, 2);
  EXPECT_EQ(table.part.samples, 3);
  EXPECT_THAT(table.part.shape, ElementsAre(2));
  EXPECT_THAT(table.class_names, ElementsAre("setosa", "versicolor"));
}

TEST(Csv, ClassNumbersDoNotDependOnTheOrderOfLines) {
  const CsvTable table = parse_csv("1,b\n2,a\n3,c\n", "x", options("1"));
  EXPECT_THAT(table.part.targets.labels, ElementsAre(1, 0, 2));
}

TEST(Csv, WithoutHeaderColumnsAreNumbers) {
  const CsvTable table = parse_csv("1,2,0\n3,4,2\n", "x", options("-1"));
  EXPECT_THAT(table.columns, ElementsAre("0", "1"));
  EXPECT_THAT(table.part.floats, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(table.part.targets.labels, ElementsAre(0, 2));
  EXPECT_EQ(table.part.targets.classes, 3);
  EXPECT_TRUE(table.class_names.empty());
}

TEST(Csv, SelectedColumnsInTheirOrder) {
  const CsvTable table =
      parse_csv("a,b,c,y\n1,2,note,4\n5,6,,8\n", "x", options("y", false, {"b", "a"}));
  EXPECT_THAT(table.part.floats, ElementsAre(2, 1, 6, 5));
  EXPECT_THAT(table.part.targets.values, ElementsAre(4, 8));
  EXPECT_EQ(table.part.targets.per_sample, 1);
  EXPECT_EQ(table.part.targets.classes, 0);
}

TEST(Csv, QuotesBlanksLineEndsAndByteOrderMark) {
  const CsvTable table = parse_csv(
      "\xEF\xBB\xBF\"a, \"\"b\"\"\" , label\r\n\r\n 1 ,\"two\nlines\"\r\n\"2\", x y \r\n3,\"\"\"\"",
      "x", options("label"));
  EXPECT_THAT(table.columns, ElementsAre("a, \"b\""));
  EXPECT_THAT(table.part.floats, ElementsAre(1, 2, 3));
  EXPECT_THAT(table.class_names, ElementsAre("\"", "two\nlines", "x y"));
}

TEST(Csv, ValidationUsesTheClassesOfTheTraining) {
  const CsvOptions by_name = options("y");
  const CsvTable train = parse_csv("a,y\n1,p\n2,q\n3,r\n", "train", by_name);
  const CsvTable validation = parse_csv("a,y\n1,r\n", "v", by_name, &train);
  EXPECT_THAT(validation.part.targets.labels, ElementsAre(2));
  EXPECT_EQ(validation.part.targets.classes, 3);
  EXPECT_THAT(test::message_of([&] { parse_csv("a,y\n1,z\n", "v", by_name, &train); }),
              HasSubstr("v: line 2, column 2: label \"z\" does not occur"));
  EXPECT_THAT(test::message_of([&] { parse_csv("b,y\n1,p\n", "v", by_name, &train); }),
              HasSubstr("feature columns differ"));
  const CsvTable integers = parse_csv("a,y\n1,0\n2,1\n", "train", by_name);
  EXPECT_THAT(test::message_of([&] { parse_csv("a,y\n1,2\n", "v", by_name, &integers); }),
              HasSubstr("expected an integer in 0..1"));
}

TEST(Csv, ClassesOfTheConfiguration) {
  CsvOptions five = options("-1");
  five.classes = 5;
  EXPECT_EQ(parse_csv("1,3\n", "x", five).part.targets.classes, 5);
  EXPECT_THAT(test::message_of([&] { parse_csv("1,5\n", "x", five); }), HasSubstr("0..4"));
  five.classes = 1;
  EXPECT_THAT(test::message_of([&] { parse_csv("1,p\n2,q\n", "x", five); }),
              HasSubstr("2 different labels; expected at most dataset.classes = 1"));
}

TEST(Csv, ColumnsThatDoNotExist) {
  const std::string text = "a,b,b\n1,2,3\n";
  const auto message = [&](const CsvOptions& columns) {
    return test::message_of([&] { parse_csv(text, "x", columns); });
  };
  EXPECT_THAT(message(options("c")), HasSubstr("no column \"c\"; the columns are \"a\", \"b\""));
  EXPECT_THAT(message(options("b")), HasSubstr("more than one column \"b\""));
  EXPECT_THAT(message(options("3")), HasSubstr("no column \"3\""));
  EXPECT_THAT(message(options("a", true, {"0"})), HasSubstr("is the target and a feature"));
  EXPECT_THAT(message(options("a", true, {"1", "-2"})), HasSubstr("twice"));
}

TEST(Csv, ReadsAFile) {
  const test::TempFolder folder;
  const std::string path = folder.write("a.csv", "1,0\n2,1\n");
  EXPECT_THAT(read_csv(path, options("-1")).part.floats, ElementsAre(1, 2));
}

}  // namespace
}  // namespace runtime::data
