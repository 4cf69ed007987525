// Checks headers, labels, quotes and missing columns of tables, and the lines that errors name.
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

std::vector<std::string> columns_of(const std::string& text, CsvOptions options,
                                    const CsvTable* known = nullptr) {
  return parse_csv(text, "x", options, known).columns;
}

TEST(CsvHeader, ItsTargetIsNoNumberAndThoseBelowAre) {
  EXPECT_THAT(columns_of("7,8,label\n1,2,0\n3,4,1\n", options("-1")), ElementsAre("7", "8"));
  EXPECT_THAT(columns_of("y,8\n0,2\n1,4\n", options("0", false)), ElementsAre("8"));
  EXPECT_EQ(parse_csv("7,8,a\n1,2,0\n3,4,b\n", "x", options("-1")).part.samples, 3);
  EXPECT_EQ(parse_csv("5.1,3.5,setosa\n4,3,setosa\n", "x", options("-1")).part.samples, 2);
  EXPECT_EQ(parse_csv("5.1,3.5,setosa\n", "x", options("-1")).part.samples, 1);
  EXPECT_EQ(parse_csv("7,8,9\n1,2,0\n", "x", options("-1")).part.samples, 2);
  EXPECT_THAT(test::message_of([&] { parse_csv("1,\n2,0\n", "x", options("-1")); }),
              HasSubstr("line 1, column 2: the label is empty"));
}

TEST(CsvHeader, AColumnThatIsAskedForByName) {
  EXPECT_THAT(columns_of("2019,2020,kind\n1,2,a\n3,4,b\n", options("kind")),
              ElementsAre("2019", "2020"));
  EXPECT_THAT(columns_of("2019,size,2\n1,2,a\n3,4,b\n", options("-1", true, {"size"})),
              ElementsAre("size"));
}

TEST(CsvHeader, TheKeyDecides) {
  CsvOptions o = options("-1");
  o.header = true;
  EXPECT_THAT(columns_of("7,8,9\n1,2,0\n", o), ElementsAre("7", "8"));
  o.header = false;
  EXPECT_THAT(test::message_of([&] { columns_of("a,b,c\n1,2,0\n", o); }),
              HasSubstr("line 1, column 1: \"a\" is not a number"));
}

TEST(CsvHeader, ACountOfColumnsIsAskedAbout) {
  for (const char* text : {"0,1,2,3\n5,1,2,1\n", "0,1,2,label\n5,1,2,cat\n5,1,2,dog\n"}) {
    CsvOptions o = options("-1");
    EXPECT_THAT(test::message_of([&] { parse_csv(text, "x", o); }),
                HasSubstr("line 1, column 1: the fields are 0, 1, 2, ..."));
    o.header = true;
    EXPECT_THAT(columns_of(text, o), ElementsAre("0", "1", "2"));
    o.header = false;
    EXPECT_EQ(columns_of(text, o).size(), 3u);
  }
  EXPECT_EQ(parse_csv("0,1,2\n5,1,1\n", "x", options("-1")).part.samples, 2);
}

TEST(CsvHeader, KnownColumnsWithoutTheTarget) {
  CsvOptions o = options("-1");
  const CsvTable train = parse_csv("7,8,label\n1,2,0\n3,4,1\n", "train", o);
  o.needs_target = false;
  EXPECT_EQ(parse_csv("7,8\n1,2\n", "x", o, &train).part.samples, 1);
  EXPECT_EQ(parse_csv("7,8,9\n1,2,0\n1,2,0\n", "x", options("-1")).part.samples, 3);
}

TEST(Csv, WhatIsNoNumberIsNamedWithItsRemedy) {
  const auto message = [](const std::string& text, const CsvOptions& options) {
    return test::message_of([&] { parse_csv(text, "x", options); });
  };
  EXPECT_THAT(
      message("a,b,y\n1,2,0\n2,red,1\n", options("y")),
      HasSubstr("x: line 3, column 2: \"red\" is not a number; expected a number in each "
                "feature: write numbers for its words, or name only columns beside \"b\" in "
                "dataset.features"));
  EXPECT_THAT(message("a,b,y\n1,,0\n", options("y")), HasSubstr("fill it in, or remove the line"));
  EXPECT_THAT(message("a,y\n1,low\n", options("y", false)), HasSubstr("dataset.target = \"y\""));
  EXPECT_THAT(message("a;b\n1;2\n", options("b")), HasSubstr("\"a;b\" has no comma"));
  EXPECT_THAT(message("1,5;2,0\n", options("-1")), HasSubstr("expected commas between the fields"));
  EXPECT_THAT(message(std::string("\xFF\xFE"
                                  "a\0",
                                  4),
                      options("-1")),
              HasSubstr("UTF-16"));
}

TEST(Csv, NumbersThatAreNormalisedKeepTheirDigits) {
  CsvOptions o = options("-1");
  o.normalised = true;
  EXPECT_THAT(parse_csv("1700000001,0\n0.1,1\n", "x", o).part.doubles,
              ElementsAre(1700000001, 0.1));
}

TEST(Csv, ReadsAFile) {
  const test::TempFolder folder;
  const std::string path = folder.write("a.csv", "1,0\n2,1\n");
  EXPECT_THAT(read_csv(path, options("-1")).part.floats, ElementsAre(1, 2));
}

}  // namespace
}  // namespace runtime::data
