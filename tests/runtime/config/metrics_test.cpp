// Checks names of metrics, which value is better, and errors about monitors.
#include "runtime/config/metrics.h"

#include <gmock/gmock.h>

#include "tests/runtime/config/support.h"

namespace runtime::config {
namespace {

using testing::HasSubstr;

TEST(Metrics, NamesOfAnyK) {
  EXPECT_EQ(k_of("top_5"), 5);
  EXPECT_EQ(k_of("top_123"), 123);
  for (const char* name : {"top_", "top_1", "top_0", "top_05", "top_-2", "top_5x", "top_k", "5",
                           "top_99999999999999999999", "stop_5"})
    EXPECT_EQ(k_of(name), 0) << name;
  EXPECT_EQ(find_metric("top_7")->name, "top_k");
  EXPECT_EQ(find_metric("top_k"), nullptr);
  EXPECT_EQ(find_metric("f2"), nullptr);
}

TEST(Metrics, WhichValueIsBetter) {
  for (const char* name : {"accuracy", "top_5", "f1", "auroc", "r2"})
    EXPECT_TRUE(larger_is_better(name)) << name;
  for (const char* name : {"loss", "perplexity", "mse", "mae"})
    EXPECT_FALSE(larger_is_better(name)) << name;
}

std::string refused(const std::string& keys, const std::string& data = test::kDataset) {
  return test::message_of([&] { test::read(data + test::kModel + test::kTraining + keys); });
}

const std::string kNumbers =
    "dataset = { format = \"csv\", path = \"a\", target = \"b\", task = \"regression\" }\n";

TEST(Metrics, AConfigurationMayMonitorThem) {
  const Config c = test::read(
      test::kWhole + "validation = { metrics = [\"f1\", \"top_3\"], monitor = \"top_3\" }\n");
  EXPECT_THAT(c.validation.metrics, testing::ElementsAre("f1", "top_3"));
  EXPECT_EQ(c.validation.monitor, "top_3");
  EXPECT_EQ(refused("validation.monitor = \"accuracy\"\n"), "");
}

TEST(Metrics, ErrorsNameARemedy) {
  EXPECT_THAT(refused("validation.metrics = [\"f1_macro\"]\n"),
              HasSubstr("got \"f1_macro\", did you mean \"f1_micro\"?; known: accuracy, top_5"));
  EXPECT_THAT(refused("validation.metrics = [\"f1\", \"f1\"]\n"), HasSubstr("twice; remove one"));
  EXPECT_THAT(refused("validation.metrics = [\"r2\"]\n"),
              HasSubstr("compares numbers, but dataset.task is \"classification\"; use accuracy"));
  EXPECT_THAT(
      refused("validation.metrics = [\"auroc\"]\n", kNumbers),
      HasSubstr("compares classes, but dataset.task is \"regression\"; use mse, mae or r2"));
  EXPECT_THAT(refused("validation.monitor = \"accuracy\"\n", kNumbers), HasSubstr("use mse"));
  EXPECT_THAT(refused("validation.metrics = [\"perplexity\"]\n"),
              HasSubstr("is for language models"));
  EXPECT_THAT(refused("validation.monitor = \"f1\"\n"), HasSubstr("add it to validation.metrics"));
  EXPECT_THAT(refused("validation = { metrics = [\"confusion\"], monitor = \"confusion\" }\n"),
              HasSubstr("is a table and no number"));
  EXPECT_THAT(refused("validation.monitor = \"los\"\n"), HasSubstr("did you mean \"loss\""));
}

}  // namespace
}  // namespace runtime::config
