// Checks settings as TOML, JSON and arguments.
#include "tools/trials/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"

namespace tools::trials {
namespace {

using runtime::config::parse_toml;

// What the text reads back as is the definition.
TEST(Settings, TextIsTomlOfTheSameValue) {
  const std::string values[] = {"0.1",         "1e-05",
                                "3",           "-7",
                                "true",        R"("a \"quoted\" \\ text\n with ü")",
                                "[1, [2, 3]]", R"({ normal = 0.01, "odd key" = [] })",
                                "1.0",         "[]"};
  for (const std::string& text : values) {
    const Json value = to_json(parse_toml("x = " + text, "file").members.at(0).value);
    const Json again = to_json(parse_toml("x = " + toml_text(value), "file").members.at(0).value);
    EXPECT_EQ(value, again) << text;
    EXPECT_EQ(value.type(), again.type()) << text;
  }
}

TEST(Settings, RefuseWhatJsonDoesNotHave) {
  for (const char* text : {"x = inf", "x = [nan]", "x = 2020-01-01"})
    EXPECT_THROW(to_json(parse_toml(text, "file")), runtime::ConfigurationError) << text;
}

TEST(Settings, BecomeArguments) {
  std::vector<std::string> arguments = {"train"};
  add_settings(arguments, {{"optimizer.lr", 0.1}, {"lr_scheduler.name", "cosine"}});
  EXPECT_THAT(arguments, testing::ElementsAre("train", "--set", "optimizer.lr=0.1", "--set",
                                              "lr_scheduler.name=\"cosine\""));
}

TEST(Settings, BecomeLinesOfAFile) {
  EXPECT_EQ(toml_lines({{"optimizer.lr", 0.1},
                        {"launch.ranks", 2},
                        {"optimizer.name", "sgd"},
                        {"device.cuda.tf32", true}}),
            "[optimizer]\nlr = 0.1\nname = \"sgd\"\n\n[launch]\nranks = 2\n\n[device.cuda]\ntf32 = "
            "true\n");
}

TEST(Settings, NumbersAreRounded) {
  EXPECT_EQ(rounded(0.0316227766, 2), 0.032);
  EXPECT_EQ(rounded(123456, 4), 123500);
  EXPECT_EQ(short_text("text"), "text");
  EXPECT_EQ(short_text(0.5), "0.5");
}

}  // namespace
}  // namespace tools::trials
