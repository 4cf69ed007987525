// The folder of a sweep: sweep.jsonl has one line for each trial.
#ifndef TOOLS_REPORT_READ_SWEEP_H_
#define TOOLS_REPORT_READ_SWEEP_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/report/settings.h"

namespace tools::report {

struct Trial {
  int64_t number = 0;
  std::vector<Setting> settings;
  std::string run;                          // its folder, as the file says it
  std::string status;                       // "done", "failed", ...
  std::string error;                        // why it has failed
  double rung = 0, value = 0, seconds = 0;  // NaN if the file does not say it
};

struct Sweep {
  std::string name;
  std::filesystem::path folder;
  std::string monitor;  // what `value` is, for example validation_loss
  bool larger_is_better = false;
  std::vector<std::string> keys;  // of settings, in the order of their first appearance
  // Those that came to a higher rung first, and of one rung the best first, because values of
  // different lengths of training do not compare. Those without a value are last.
  std::vector<Trial> trials;
  Settings file;  // the sweep's own file; empty if there is no plan.json
  std::vector<std::string> notes;
};

bool is_sweep_folder(const std::filesystem::path& folder);

// Reads a sweep's folder. If several lines are about one trial, the last one counts. Whether larger
// values are better is what results.json says, and is_larger_better() if it is not there. A cut or
// damaged line is left out, with a note, and so is a damaged plan.json. Throws DataError if
// sweep.jsonl cannot be read, if no line is a trial, or if a value has another kind.
Sweep read_sweep(const std::filesystem::path& folder);

// Where the run of a trial lies; empty if there is no such folder below that of the sweep.
std::filesystem::path folder_of(const Sweep& sweep, const Trial& trial);

// Whether a larger value of this metric is the better one (an accuracy), or a smaller one (a loss).
bool is_larger_better(const std::string& metric);

}  // namespace tools::report

#endif  // TOOLS_REPORT_READ_SWEEP_H_
