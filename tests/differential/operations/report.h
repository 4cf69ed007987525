// The findings of a run: counts that can be added up, and failures with the commands that replay
// them.
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
  int64_t wrong = 0;    // cases with a finding, without crashes
  int64_t refused = 0;  // cases whose operation the device does not support
  int64_t crashed = 0;
};

struct Failure {
  std::string recipe;  // as it was drawn
  std::string shrunk;
  Finding finding;  // of the shrunk recipe
};

struct Tally {
  std::map<std::string, Row> rows;  // by operation
  // The number of cases by: "conv2d jit:avx512_core", "float32", "bias,relu", "huge", "nan", "2
  // threads"
  std::map<std::string, int64_t> implementations, types, post, fills, plants, threads;
  std::map<std::string, int64_t> refusals;  // by operation and reason
  // The smallest and largest value of each parameter, such as "conv2d.stride_h".
  std::map<std::string, std::pair<int64_t, int64_t>> numbers;

  void add(const Recipe& recipe, const Outcome& outcome);
  void add(const Tally& other);
};

// One line of a results file.
struct Chunk {
  std::string device, isa, what;  // `what` describes the options that the cases were drawn with
  uint64_t seed = 0;
  Tally tally;
  std::vector<Failure> failures;
};

nlohmann::json to_json(const Outcome& outcome);
Outcome outcome_from_json(const nlohmann::json& json);
nlohmann::json to_json(const Chunk& chunk);
Chunk chunk_from_json(const nlohmann::json& json);

// Reads the chunks of a results file; returns none if there is no such file. An incomplete last
// line is ignored. Throws std::runtime_error, which names the line, if any other line is no chunk.
std::vector<Chunk> read_results(const std::filesystem::path& file);

// Returns tables for people: operations, coverage, then one failure of each kind; one set of tables
// for each device and instruction set.
std::string summary_text(const std::vector<Chunk>& chunks);

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_REPORT_H_
