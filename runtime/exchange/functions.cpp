// Translates the names of activation functions.
#include "runtime/exchange/functions.h"

#include <algorithm>

namespace runtime::exchange {

namespace {

// Where transformers has several names, the first one is written.
struct FunctionName {
  std::string_view theirs, ours;
};
constexpr FunctionName kFunctions[] = {{"gelu_pytorch_tanh", "gelu_tanh"},
                                       {"gelu_new", "gelu_tanh"},
                                       {"gelu", "gelu"},
                                       {"relu", "relu"},
                                       {"tanh", "tanh"},
                                       {"silu", "silu"},
                                       {"swish", "silu"}};

}  // namespace

std::string read_function(const JsonObject& config, const std::string& key,
                          const std::string& fallback, const std::vector<std::string_view>& ours) {
  const std::string given = config.text(key, fallback);
  std::string expected;
  for (const FunctionName& name : kFunctions) {
    if (std::find(ours.begin(), ours.end(), name.ours) == ours.end()) continue;
    if (name.theirs == given) return std::string(name.ours);
    expected += (expected.empty() ? "" : ", ") + std::string(name.theirs);
  }
  config.fail(key, "one of " + expected);
}

std::string their_function(const std::string& ours) {
  for (const FunctionName& name : kFunctions) {
    if (name.ours == ours) return std::string(name.theirs);
  }
  return ours;
}

}  // namespace runtime::exchange
