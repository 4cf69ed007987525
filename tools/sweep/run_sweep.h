// Runs the trials of a sweep.
#ifndef TOOLS_SWEEP_RUN_SWEEP_H_
#define TOOLS_SWEEP_RUN_SWEEP_H_

#include <string>
#include <vector>

#include "tools/sweep/records.h"
#include "tools/sweep/sweep_file.h"
#include "tools/sweep/trial.h"

namespace tools::sweep {

// The folder of a sweep, which holds sweep.jsonl, plan.json (the text of the sweep's file and the
// settings of all trials) and runs/<number>, the folder of each trial's run. While an object of
// this class exists, and while runs that it has started still live, no other may be made for the
// folder.
class SweepFolder {
 public:
  // `resume`: the folder must hold this very sweep, which goes on, or one of which every trial that
  // has ended has failed, which begins anew if it is another one; else it must hold none. If runs
  // that a killed sweep has left behind still save themselves, waits up to a minute for them.
  // Throws ConfigurationError if the folder does not fit, and DataError if it cannot be written.
  // `text`: the sweep's file; `trials`: what is written into plan.json, and replaced by what is
  // read from there if the sweep goes on.
  SweepFolder(const std::string& folder, const std::string& text, bool resume,
              std::vector<Trial>& trials);
  Records& records() { return *records_; }
  const std::string& path() const { return path_; }
  // The folder of a trial's run, relative to that of the sweep.
  static std::string run_of(int64_t trial);

 private:
  void lock(bool resume);
  void begin_anew();

  std::string path_;
  // Without O_CLOEXEC: the runs inherit it, so that the lock lasts as long as they do.
  runtime::launch::FileDescriptor lock_;
  std::optional<Records> records_;
};

// Returns the command line of `runtime` that trains a trial until the end of a rung, from its
// newest checkpoint if there is one.
std::vector<std::string> arguments_of(const Sweep& sweep, const Trial& trial, int64_t rung,
                                      const std::string& run_folder);

// Checks the configurations of the trials as `runtime config check` does: the first thousand, and
// of the others those that bring a value of a list which no trial before has. `path` is the file of
// the sweep. Throws ConfigurationError that names the trial with its settings, or says why the
// first trial never measures the monitor.
void check_trials(const Sweep& sweep, const std::vector<Trial>& trials, const std::string& path);

// Returns the monitor of a finished run, from its metrics.jsonl. Throws DataError if the file has
// no such number.
double value_of(const Sweep& sweep, const std::string& run_folder);

// Runs what has no record yet or has failed in an earlier attempt, `sweep.parallel` runs at a time,
// and records how each ends. Returns
// the signal that has ended it, 0 if all is done. Throws DataError if a record cannot be written.
int run_trials(const Sweep& sweep, const std::vector<Trial>& trials, SweepFolder& folder);

}  // namespace tools::sweep

#endif  // TOOLS_SWEEP_RUN_SWEEP_H_
