// The metrics of a run: what metrics.jsonl holds.
#ifndef TOOLS_REPORT_READ_METRICS_H_
#define TOOLS_REPORT_READ_METRICS_H_

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tools/report/series.h"

namespace tools::report {

// The seconds that the steps of one epoch took, without validation, and where it ended.
struct EpochTime {
  int64_t epoch = 0;  // from 0
  double seconds = 0;
  bool whole = true;  // false if the run ended or was stopped within the epoch
};

// The curves of a run by the key in metrics.jsonl, except "step" and "epoch".
struct Metrics {
  std::map<std::string, std::vector<Point>> curves;  // by step, ascending
  std::vector<EpochTime> epochs;                     // empty if the speed is not known
  // The last "validation_confusion": a row for each true class, with the number of samples by
  // predicted class. Empty if there is none.
  std::vector<std::vector<double>> confusion;
  double confusion_step = 0;
  int64_t steps = 0;               // of the last line
  double seconds = 0;              // of training, without validation; NaN if it is not known
  double steps_per_epoch = 0;      // NaN if it is not known
  std::vector<std::string> notes;  // what was left out or was not finite

  // The points of a curve; none if the run has no such curve.
  const std::vector<Point>& curve(const std::string& key) const;
};

// What other files of the run say; NaN if they do not.
struct RunSize {
  double batch = std::numeric_limits<double>::quiet_NaN();  // samples of a step; tells the times
  double steps_per_epoch = std::numeric_limits<double>::quiet_NaN();
};

// Reads metrics.jsonl. A cut or damaged line is left out, with a note. Throws DataError if the file
// cannot be read, or if none of its lines can.
Metrics read_metrics(const std::filesystem::path& file, const RunSize& size);

// The most keys of metrics that are read.
inline constexpr size_t kMostCurves = 100;

}  // namespace tools::report

#endif  // TOOLS_REPORT_READ_METRICS_H_
