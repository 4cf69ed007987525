// Checks which models get a warning about their last layer.
#include "runtime/config/advice.h"

#include <gmock/gmock.h>

#include "tests/runtime/config/support.h"

namespace runtime::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> advice_of(const std::string& layers, const std::string& keys = "",
                                   const std::string& data = test::kDataset) {
  return advice(test::read(data + test::kTraining + keys + "model = { input = [3], layers = [" +
                           layers + "] }\n"));
}

const std::string kLinear = R"({ type = "linear", features = 2 })";
// The network of Keras's Sequential([Dense(16), Dense(32), Dense(2, "sigmoid")]) with L2.
const std::string kKeras =
    R"({ type = "linear", features = 16, activation = "relu", l2 = 0.01 },
{ type = "linear", features = 32, activation = "relu", l2 = 0.01 },
{ type = "linear", features = 2, activation = "sigmoid" })";

std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

TEST(Advice, ASigmoidBeforeCrossEntropy) {
  EXPECT_THAT(
      advice_of(in_one_line(kKeras)),
      ElementsAre(testing::AllOf(HasSubstr("test.toml:3:"), HasSubstr("ends with \"sigmoid\""),
                                 HasSubstr("the loss cross_entropy expects logits"),
                                 HasSubstr("remove the sigmoid"))));
  EXPECT_THAT(
      advice_of(kLinear + ", { type = \"softmax\" }", "training.loss = \"cross_entropy\"\n"),
      ElementsAre(HasSubstr("remove the softmax")));
  EXPECT_THAT(advice_of("{ type = \"block\", layers = [" + kLinear + ", { type = \"sigmoid\" }] }"),
              ElementsAre(HasSubstr("remove the sigmoid")));
}

TEST(Advice, NoneForWhatIsRight) {
  EXPECT_THAT(advice_of(kLinear), IsEmpty());
  EXPECT_THAT(
      advice_of("{ type = \"linear\", features = 2, activation = \"sigmoid\" }, " + kLinear),
      IsEmpty());
  EXPECT_THAT(
      advice_of("{ type = \"linear\", features = 2, activation = \"sigmoid\" }", "",
                "dataset = { format = \"csv\", path = \"a\", target = \"b\", task = \"regression\" "
                "}\n"),
      IsEmpty());
}

}  // namespace
}  // namespace runtime::config
