// What `runtime bench --json`, `runtime bench --scaling --json` and a run of several ranks
// (scaling.json) have measured, and what was predicted. Numbers that a file lacks are NaN.
#ifndef TOOLS_REPORT_READ_BENCH_H_
#define TOOLS_REPORT_READ_BENCH_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tools::report {

// A number that was predicted before it was measured.
struct Comparison {
  enum class Kind { kSeconds, kFraction, kBytes };
  std::string what;
  Kind kind = Kind::kSeconds;
  double predicted, measured;
};

// The measured steps on one number of ranks. Times are milliseconds of one step.
struct ScalingRow {
  double ranks, global_batch, step_ms, samples_per_second, speed_up, efficiency;
  double predicted_efficiency, t_comp_ms, t_sync_ms, exposed_ms, bubble;
  std::string mesh;  // "2 x 1 x 1": data, tensor, pipeline; "" if not known
  std::optional<bool> pays;
};

// One file.
struct Bench {
  std::string source;            // what it is about, for titles: file, configuration and device
  std::string mode;              // of rows: "fixed_global_batch" or "fixed_batch_per_rank"
  std::vector<ScalingRow> rows;  // empty unless it is of bench --scaling
  std::vector<Comparison> comparisons;  // what was predicted and measured
};

// Throws DataError if the file is none of the three, or if a value has another kind.
Bench read_bench(const std::filesystem::path& file);

}  // namespace tools::report

#endif  // TOOLS_REPORT_READ_BENCH_H_
