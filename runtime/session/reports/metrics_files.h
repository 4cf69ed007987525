// Reporters that write the metrics of a run to files. A file that cannot be written gives one
// warning, and an error at the end of the run.
#ifndef RUNTIME_SESSION_REPORTS_METRICS_FILES_H_
#define RUNTIME_SESSION_REPORTS_METRICS_FILES_H_

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "runtime/session/reports/rank_numbers.h"
#include "runtime/session/reports/screen.h"

namespace runtime::session {

// All functions throw DataError if the file cannot be opened. `warnings` must outlive the reporter.
// `after`: the run goes on after this step, and what the file has of later ones is void.

// Appends one JSON object for each line of metrics; whoever goes on has cut the file.
std::unique_ptr<Reporter> make_metrics_file(const std::string& path, std::ostream& warnings);
// A table with one row for each line of metrics. Fields that were not measured are empty.
// `validation`: the metrics of validation.metrics that are numbers, which get a column each.
std::unique_ptr<Reporter> make_csv(const std::string& path, int64_t after, std::ostream& warnings,
                                   const std::vector<std::string>& validation = {});
// Returns the name of the file of a rank.
std::string rank_file(int rank);
// Cuts the files in the folder that are of ranks from `ranks` on, which the run has no more.
void cut_rank_files(const std::filesystem::path& folder, int ranks, int64_t after);
// Appends one JSON object for each line of metrics, with the numbers of this rank (rank_numbers.h).
// The folder of the file is made.
std::unique_ptr<Reporter> make_rank_file(const std::string& path, const RankName& name,
                                         int64_t after, std::ostream& warnings);
// A new event file of TensorBoard in `folder`, which is made, with the scalars train/loss,
// train/learning_rate, train/samples_per_second, train/tokens_per_second, train/mfu,
// validation/loss, validation/accuracy and validation/<metric> for those of validation.metrics.
// Equivalent to: torch.utils.tensorboard.SummaryWriter.
std::unique_ptr<Reporter> make_tensorboard(const std::string& folder, int64_t after,
                                           std::ostream& warnings);

}  // namespace runtime::session

#endif  // RUNTIME_SESSION_REPORTS_METRICS_FILES_H_
