// Checks JSON that is damaged, deep or of another kind.
#include "tools/report/json_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "tests/tools/report/files.h"

namespace tools::report {
namespace {

using testing::HasSubstr;

TEST(JsonInput, WhatIsNotFiniteIsNull) {
  std::string reason;
  const auto json =
      parse_json(R"({"a": NaN, "b": [Infinity, -Infinity], "NaN": "Infinity \" NaN"})", reason);
  ASSERT_TRUE(json) << reason;
  EXPECT_EQ(json->dump(), R"({"a":null,"b":[null,null],"NaN":"Infinity \" NaN"})");
}

TEST(JsonInput, WhatIsNoJsonHasAReason) {
  std::string reason;
  EXPECT_FALSE(parse_json(R"({"a": 1,)", reason));
  EXPECT_THAT(reason, HasSubstr("parse error"));
  EXPECT_FALSE(parse_json("\"\xff\"", reason));
  EXPECT_THAT(reason, HasSubstr("UTF-8"));
}

TEST(JsonInput, DeepBracketsAreRefused) {
  std::string reason;
  EXPECT_FALSE(parse_json(std::string(1000000, '['), reason));
  EXPECT_THAT(reason, HasSubstr("nested deeper than 32"));
  EXPECT_TRUE(parse_json("\"" + std::string(1000, '[') + "\"", reason)) << "brackets of a text";
}

TEST(JsonInput, LinesThatHoldNoObjectAreNamed) {
  const test::Folder folder;
  const auto file = folder.write("a.jsonl", "{\"a\":1}\n\n[2]\n{\"a\":\r\n{\"a\":4}\n{\"a\":5");
  std::vector<int> taken;
  const auto bad = read_json_lines(file, [&](const Json& json) { taken.push_back(json["a"]); });
  EXPECT_THAT(taken, testing::ElementsAre(1, 4));
  ASSERT_EQ(bad.size(), 3u);
  EXPECT_EQ(bad[0].line, 3);
  EXPECT_THAT(bad[0].reason, HasSubstr("array"));
  EXPECT_EQ(bad[1].line, 4);
  EXPECT_FALSE(bad[1].last);
  EXPECT_EQ(bad[2].line, 6);
  EXPECT_TRUE(bad[2].last) << "it has no line feed";
}

TEST(JsonInput, AFileThatIsNoObjectIsRefused) {
  const test::Folder folder;
  const auto file = folder.write("a.json", "[1]");
  EXPECT_THAT(test::message_of<runtime::DataError>([&] { read_json(file); }),
              HasSubstr("a.json: expected one JSON object: it holds a value of the type array"));
  EXPECT_THAT(test::message_of<runtime::DataError>([&] { read_json(folder.path() / "none.json"); }),
              HasSubstr("cannot be read"));
  EXPECT_THAT(test::message_of<runtime::DataError>([&] { read_json(folder.path()); }),
              HasSubstr("no regular file"));
}

TEST(JsonInput, FieldsHaveTheirKind) {
  const Json json = Json::parse(R"({"n":1.5,"t":"x","l":[{"n":2}],"o":{"n":3},"none":null})");
  const Fields f(json, "file: top");
  EXPECT_EQ(f.number("n"), 1.5);
  EXPECT_EQ(f.text("t"), "x");
  EXPECT_EQ(f.list("l").at(0).number("n"), 2);
  EXPECT_EQ(f.object("o")->number("n"), 3);
  EXPECT_TRUE(std::isnan(f.number("none")));
  EXPECT_TRUE(std::isnan(f.number("missing")));
  EXPECT_EQ(f.text("missing"), "");
  EXPECT_FALSE(f.object("missing"));
  EXPECT_FALSE(f.has("none"));
}

TEST(JsonInput, AnotherKindIsNamedWithItsPlace) {
  const Json json = Json::parse(R"({"n":"1","t":2,"l":{"a":1},"items":[{"n":[]}]})");
  const Fields f(json, "file: top");
  const auto message = [](const auto& function) {
    return test::message_of<runtime::DataError>(function);
  };
  EXPECT_THAT(message([&] { f.number("n"); }),
              HasSubstr("file: top.n: expected a number, got a value of the type string"));
  EXPECT_THAT(message([&] { f.text("t"); }), HasSubstr("top.t: expected a text"));
  EXPECT_THAT(message([&] { f.list("l"); }), HasSubstr("top.l: expected a list, got an object"));
  EXPECT_THAT(message([&] { f.list("items").at(0).number("n"); }), HasSubstr("top.items[0].n"));
  EXPECT_THAT(message([&] { f.required_number("gone"); }),
              HasSubstr("top.gone: expected a number"));
  EXPECT_THAT(message([&] { f.required_text("gone"); }), HasSubstr("top.gone: expected a text"));
  EXPECT_THAT(message([&] { f.object("t"); }), HasSubstr("top.t: expected an object"));
}

}  // namespace
}  // namespace tools::report
