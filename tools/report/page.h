// The whole page.
#ifndef TOOLS_REPORT_PAGE_H_
#define TOOLS_REPORT_PAGE_H_

#include <filesystem>
#include <string>
#include <vector>

#include "tools/report/read_bench.h"
#include "tools/report/read_run.h"
#include "tools/report/read_sweep.h"

namespace tools::report {

// What a report is about.
struct Inputs {
  std::vector<Run> runs;
  std::vector<Sweep> sweeps;
  std::vector<Bench> benches;  // files that belong to no run
};

// Reads folders of runs and of sweeps, and files of `runtime bench --json`. Throws
// ConfigurationError for a path that is none of these, for more than kMostPaths of them; DataError
// for a file that is damaged.
Inputs read_inputs(const std::vector<std::filesystem::path>& paths);
inline constexpr size_t kMostPaths = 64;

// One HTML document that needs no other file and no network.
std::string page(const Inputs& inputs);

}  // namespace tools::report

#endif  // TOOLS_REPORT_PAGE_H_
