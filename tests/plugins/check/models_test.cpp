// The table of operations of each preset is that of the steps which the runtime compiles.
#include "plugins/check/models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "tests/plugins/check/program.h"

namespace plugins::check {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = R"([model]
preset = "%s"
[dataset]
format = "synthetic"
samples = 16
classes = 10
%s
[training]
global_batch_size = 4
[device]
backend = "reference"
tune = "off"
)";

std::set<std::string> compiled_operations(const std::string& preset) {
  const bool tokens = preset.starts_with("gpt");
  const fs::path folder = fs::path(testing::TempDir()) / ("models_test_" + preset);
  fs::remove_all(folder);
  fs::create_directories(folder);
  char text[1024];
  std::snprintf(text, sizeof(text), kConfig, preset.c_str(),
                tokens ? "task = \"next_token\"\nlast_batch = \"drop\"" : "");
  std::ofstream(folder / "config.toml") << text;
  const ProgramResult result = run_program(
      RUNTIME_PROGRAM, {"plan", folder / "config.toml", "--dump-graph", folder / "graph"});
  EXPECT_EQ(result.exit_code, 0) << result.text;
  std::set<std::string> found;
  for (const auto& file : fs::directory_iterator(folder / "graph")) {
    if (file.path().filename().string().find("-lower.txt") == std::string::npos) continue;
    const std::string graph = text_of(file.path());
    const std::regex operation(" = ([a-z_0-9]+)\\(");
    for (std::sregex_iterator it(graph.begin(), graph.end(), operation), end; it != end; ++it)
      found.insert((*it)[1]);
  }
  return found;
}

TEST(ModelOperations, AreThoseOfTheCompiledSteps) {
  for (const ModelOperations& model : model_operations()) {
    const std::set<std::string> listed(model.operations.begin(), model.operations.end());
    EXPECT_EQ(listed, compiled_operations(model.preset)) << model.preset;
  }
}

// The table for authors in plugins/operations.md has a row for each operation, with an x for each
// preset that uses it.
TEST(ModelOperations, AreThoseOfTheDocument) {
  const std::string document = text_of(OPERATIONS_DOCUMENT);
  std::string head = "| operation |";
  std::set<std::string> operations;
  for (const ModelOperations& model : model_operations()) {
    head += " `" + model.preset + "` |";
    operations.insert(model.operations.begin(), model.operations.end());
  }
  EXPECT_NE(document.find(head), std::string::npos) << head;
  for (const std::string& operation : operations) {
    std::string row = "| `" + operation + "` |";
    for (const ModelOperations& model : model_operations()) {
      const auto& used = model.operations;
      row += std::find(used.begin(), used.end(), operation) != used.end() ? " x |" : "  |";
    }
    EXPECT_NE(document.find(row + "\n"), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace plugins::check
