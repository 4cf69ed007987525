// Runs `runtime sweep` in a folder of the test.
#ifndef TESTS_TOOLS_SWEEP_SWEEP_PROGRAM_H_
#define TESTS_TOOLS_SWEEP_SWEEP_PROGRAM_H_

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/cli/shell.h"

namespace runtime::cli {

class SweepTest : public ShellTest {
 protected:
  SweepTest() {
    folder_.write("job.toml", R"(
[model]
input = [12]
layers = [ { type = "linear", features = 32, activation = "relu" }, { type = "dropout", probability = 0.1 },
           { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 300
classes = 3
validation_split = 0.2
[training]
global_batch_size = 24
epochs = 5
[optimizer]
name = "adamw"
[checkpoint]
interval_steps = 5
interval_minutes = 0
[device]
backend = "reference"
)");
  }

  // Twelve trials, two at a time.
  void write_sweep(const std::string& more = "") {
    folder_.write("sweep.toml", "config = \"job.toml\"\nparallel = 2\n" + more +
                                    "\n[parameters]\n"
                                    "optimizer.lr = [0.0001, 0.001, 0.003, 0.01, 0.03, 0.1]\n"
                                    "optimizer.weight_decay = [0.0, 0.5]\n");
  }

  std::vector<nlohmann::json> lines_of(const std::string& folder) const {
    std::vector<nlohmann::json> lines;
    std::ifstream file(folder_.path() / folder / "sweep.jsonl");
    for (std::string line; std::getline(file, line);)
      if (!file.eof()) lines.push_back(nlohmann::json::parse(line));  // the last one may be cut
    return lines;
  }

  // {trial, rung} -> everything of the record but the time that it took, and the weights.
  using Results = std::map<std::pair<int64_t, int64_t>, std::pair<nlohmann::json, std::string>>;
  Results results_of(const std::string& folder) const {
    Results results;
    for (nlohmann::json line : lines_of(folder)) {
      const std::string run = line["run"];
      line.erase("seconds");
      const std::pair key(line["trial"].get<int64_t>(), line["rung"].get<int64_t>());
      EXPECT_FALSE(results.contains(key)) << "trial " << key.first << " was recorded twice";
      results[key] = {line, test::read_text(folder_.path() / folder / run / "weights.safetensors")};
    }
    return results;
  }
};

}  // namespace runtime::cli

#endif  // TESTS_TOOLS_SWEEP_SWEEP_PROGRAM_H_
