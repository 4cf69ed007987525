// What is said at the end of a run.
#ifndef RUNTIME_SESSION_SUMMARY_H_
#define RUNTIME_SESSION_SUMMARY_H_

#include <filesystem>
#include <string>

#include "runtime/train/run/loop.h"

namespace runtime::session {

using train::RunResult;

// Returns a line with a newline at its end: the mean training loss of the steps since the last
// whole epoch; "" if the run has ended with an epoch, whose loss was reported.
std::string unfinished_epoch(const RunResult& result);

// The function returns lines without a newline at the end: the training loss of an unfinished
// epoch, the best validation, the time with the energy and the use of the device where these are
// known, and the files of the run. Lines about what was not measured are left out.
std::string summary(const RunResult& result, const std::string& monitor,
                    const std::filesystem::path& folder);

}  // namespace runtime::session

#endif  // RUNTIME_SESSION_SUMMARY_H_
