// The folder of a run of `runtime train`, as a report shows it.
#ifndef TOOLS_REPORT_READ_RUN_H_
#define TOOLS_REPORT_READ_RUN_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/report/read_bench.h"
#include "tools/report/read_metrics.h"
#include "tools/report/read_profile.h"
#include "tools/report/settings.h"

namespace tools::report {

// Something that is known about a run: its device, its build, its newest checkpoint.
struct Fact {
  std::string name, value;
};

struct Run {
  std::string name;  // of the folder; with as many parents as tell it from the other runs
  std::filesystem::path folder;
  Settings settings;  // empty if the folder has no config.toml
  Metrics metrics;    // empty if the folder has no metrics.jsonl
  std::optional<Profile> profile;
  std::vector<Bench> benches;  // scaling.json, bench.json and bench_scaling.json
  std::vector<Fact> facts;
  std::vector<std::string> notes;  // what a reader of the report has to know
};

// Whether the folder has files that a run writes.
bool is_run_folder(const std::filesystem::path& folder);

// Reads metrics.jsonl, config.toml, profile.json, scaling.json, bench.json, bench_scaling.json and
// the manifest of the newest checkpoint, as far as they are there. Throws ConfigurationError if
// the folder is none of a run, DataError if one of its files is damaged.
Run read_run(const std::filesystem::path& folder);

// Gives runs whose folders have the same name longer ones.
void make_names_differ(std::vector<Run>& runs);

}  // namespace tools::report

#endif  // TOOLS_REPORT_READ_RUN_H_
