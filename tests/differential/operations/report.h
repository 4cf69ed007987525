// What a run found: counts that can be added up, and failures with the command that replays them.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_REPORT_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_REPORT_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/differential/operations/check.h"

namespace differential {

// The counts of one operation.
struct Row {
  int64_t cases = 0;
  int64_t candidates = 0;
  int64_t wrong = 0;    // cases with a finding, crashes not counted
  int64_t refused = 0;  // cases that the device does not do
  int64_t crashed = 0;
};

struct Failure {
  std::string recipe;  // as it was drawn
  std::string shrunk;
  Finding finding;  // of the shrunk recipe
};

struct Tally {
  std::map<std::string, Row> rows;  // by operation
  // How often: "conv2d jit:avx512_core", "float32", "bias,relu", "huge", "nan", "2 threads"
  std::map<std::string, int64_t> implementations, types, post, fills, plants, threads;
  std::map<std::string, int64_t> refusals;  // by operation and reason
  // "conv2d.stride_h" -> smallest and largest value
  std::map<std::string, std::pair<int64_t, int64_t>> numbers;

  void add(const Recipe& recipe, const Outcome& outcome);
  void add(const Tally& other);
};

// One line of a results file.
struct Chunk {
  std::string device, isa, what;  // `what`: the options that the cases were drawn with
  uint64_t seed = 0;
  Tally tally;
  std::vector<Failure> failures;
};

nlohmann::json to_json(const Outcome& outcome);
Outcome outcome_from_json(const nlohmann::json& json);
nlohmann::json to_json(const Chunk& chunk);
Chunk chunk_from_json(const nlohmann::json& json);

// Chunks of a results file; none if there is no such file. Throws std::runtime_error that names a
// line that is not one of these; a last line that was cut off is left out.
std::vector<Chunk> read_results(const std::filesystem::path& file);

// Tables for people: operations, coverage, then each kind of failure once. One for each device and
// instruction set.
std::string summary_text(const std::vector<Chunk>& chunks);

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_REPORT_H_
