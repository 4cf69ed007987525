// Checks that each broken safetensors file is refused with its reason.
#include <gmock/gmock.h>

#include "runtime/data/safetensors.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using test::safetensors;

struct BrokenTensorFile {
  const char* name;
  std::string content;
  std::vector<std::string> fragments;  // parts that the message must contain
};

std::string entry(const std::string& name, const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "F32") {
  std::string text = "\"";
  text.append(name).append("\":{\"dtype\":\"").append(dtype).append("\",\"shape\":");
  return text.append(shape).append(",\"data_offsets\":").append(offsets).append("}");
}

// A header with these entries.
std::string header(const std::vector<std::string>& entries) {
  std::string text = "{";
  for (const std::string& item : entries) text.append(text.size() > 1 ? "," : "").append(item);
  return text.append("}");
}

std::vector<BrokenTensorFile> broken_files() {
  const std::string four(4, '\0'), eight(8, '\0');
  std::string deep = "{\"a\":";
  deep.append(100000, '[');
  std::string objects = "{\"a\":";
  for (int i = 0; i < 10000; ++i) objects += "{\"dtype\":";
  return {
      {"Empty", "", {"at byte 0", "expected 8 bytes"}},
      {"ShortLength", "\x01\x02", {"at byte 2", "found 2"}},
      {"HugeHeader", std::string(8, '\xff') + "{}", {"18446744073709551615", "expected 2..2"}},
      {"HeaderBeyondFile", std::string("\x09\0\0\0\0\0\0\0{}", 10), {"has 9 bytes", "2..2"}},
      {"NoHeader", std::string(8, '\0'), {"has 0 bytes"}},
      {"NoObject", safetensors("[]", ""), {"at byte 8", "begin with '{'"}},
      {"NoJson", safetensors("{\"a\":", ""), {"not JSON"}},
      {"TrailingJson", safetensors("{} {}", ""), {"not JSON"}},
      {"BadUtf8", safetensors("{\"\xff\":1}", ""), {"not JSON"}},
      {"DeepArrays", safetensors(deep, ""), {"unexpected an array"}},
      {"DeepObjects", safetensors(objects, ""), {"unexpected an object"}},
      {"DeepShape", safetensors(header({entry("a", "[[1]]", "[0,4]")}), four), {"an array"}},
      {"UnknownType",
       safetensors(header({entry("a", "[1]", "[0,1]", "F8")}), "x"),
       {"'a'", "unknown type 'F8'", "BF16"}},
      {"UnknownKey", safetensors(R"({"a":{"type":"F32"}})", ""), {"unknown key 'type'"}},
      {"MissingKey", safetensors(R"({"a":{"dtype":"F32","shape":[1]}})", ""), {"missing"}},
      {"Number", safetensors(R"({"a":1})", ""), {"unexpected the number 1"}},
      {"MetadataNumber", safetensors(R"({"__metadata__":{"a":1}})", ""), {"the number 1"}},
      {"MetadataTwice", safetensors(R"({"__metadata__":{"a":"1","a":"2"}})", ""), {"twice"}},
      {"NegativeDim", safetensors(header({entry("a", "[-1]", "[0,4]")}), four), {"-1"}},
      {"FractionalDim", safetensors(header({entry("a", "[1.5]", "[0,4]")}), four), {"1.5"}},
      {"HugeDim",
       safetensors(header({entry("a", "[18446744073709551615]", "[0,4]")}), four),
       {"more elements than can be counted"}},
      {"ShapeOverflow",
       safetensors(header({entry("a", "[4294967296,4294967296]", "[0,4]")}), four),
       {"more elements than can be counted"}},
      {"ShapeMismatch",
       safetensors(header({entry("a", "[2]", "[0,4]")}), four),
       {"span 4 bytes", "expected 8"}},
      {"RankTooHigh",
       safetensors(header({entry("a", "[1,1,1,1,1,1,1,1,1]", "[0,4]")}), four),
       {"more than 8 dimensions"}},
      {"OneOffset", safetensors(header({entry("a", "[1]", "[0]")}), four), {"data_offsets"}},
      {"ThreeOffsets", safetensors(header({entry("a", "[1]", "[0,4,8]")}), four), {"two numbers"}},
      {"FallingOffsets", safetensors(header({entry("a", "[1]", "[4,0]")}), four), {"rising"}},
      {"Overlap",
       safetensors(header({entry("a", "[1]", "[0,4]"), entry("b", "[1]", "[2,6]")}),
                   eight.substr(2)),
       {"'b' begins at 2", "expected 4", "overlaps"}},
      {"Gap",
       safetensors(header({entry("a", "[1]", "[0,4]"), entry("b", "[1]", "[8,12]")}), four + eight),
       {"'b' begins at 8", "expected 4", "gap"}},
      {"BeyondFile",
       safetensors(header({entry("a", "[2]", "[0,8]")}), four),
       {"take 8 bytes, the file has 4", "cut"}},
      {"Trailing",
       safetensors(header({entry("a", "[1]", "[0,4]")}), eight),
       {"take 4 bytes, the file has 8", "trailing"}},
      {"TwiceTheSameName",
       safetensors(header({entry("a", "[1]", "[0,4]"), entry("a", "[1]", "[4,8]")}), eight),
       {"'a'", "twice"}},
      {"TwiceTheSameKey",
       safetensors(R"({"a":{"dtype":"F32","dtype":"F32"}})", ""),
       {"'dtype' is there twice"}},
  };
}

class BrokenSafetensors : public testing::TestWithParam<BrokenTensorFile> {};
INSTANTIATE_TEST_SUITE_P(Files, BrokenSafetensors, testing::ValuesIn(broken_files()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(BrokenSafetensors, IsRefusedWithAReason) {
  const std::string& content = GetParam().content;
  const std::string message = test::message_of([&] {
    parse_safetensors(reinterpret_cast<const std::byte*>(content.data()), content.size(), "w.st");
  });
  EXPECT_THAT(message, testing::StartsWith("w.st: "));
  for (const std::string& fragment : GetParam().fragments) {
    EXPECT_THAT(message, testing::HasSubstr(fragment));
  }
}

}  // namespace
}  // namespace runtime::data
