// The reporters of a run show its progress as a bar or lines, and write the files of its metrics.
#ifndef RUNTIME_SESSION_REPORTERS_H_
#define RUNTIME_SESSION_REPORTERS_H_

#include <cstdint>
#include <filesystem>
#include <memory>

#include "runtime/config/config.h"
#include "runtime/launch/environment.h"
#include "runtime/train/reporter.h"

namespace runtime::session {

// Makes the reporters that [metrics] names; their files are in `folder`. `after`: the step that the
// run goes on after, 0 if it begins.
std::unique_ptr<train::Reporter> make_reporter(const config::Config& config,
                                               const std::filesystem::path& folder, int64_t epochs,
                                               int64_t steps, int64_t after);

// These make what every rank has, if it is wanted: its page for Prometheus, which throws
// ConfigurationError if it cannot be served, and its file in ranks/ of the folder.
std::unique_ptr<train::Reporter> make_rank_page(const config::Config& config,
                                                const launch::RankEnvironment& place);
std::unique_ptr<train::Reporter> make_rank_lines(const config::Config& config,
                                                 const launch::RankEnvironment& place,
                                                 const std::filesystem::path& folder,
                                                 int64_t after);

}  // namespace runtime::session

#endif  // RUNTIME_SESSION_REPORTERS_H_
