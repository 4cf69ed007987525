// Reporters on the screen: a progress bar, a line for each epoch, JSON lines, or silence.
#ifndef RUNTIME_SESSION_REPORTS_SCREEN_H_
#define RUNTIME_SESSION_REPORTS_SCREEN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/train/reporter.h"

namespace runtime::session {

using train::Metrics;
using train::Reporter;

// The metrics as one JSON object; empty fields are left out.
std::string to_json(const Metrics& metrics);

// How a terminal is written to.
struct TerminalStyle {
  bool colour = false;
  std::function<int()> columns = {};  // of the terminal at this moment; empty or 0: unknown
};

// A bar with epoch, step, loss, samples/s (tokens/s for language models) and remaining time,
// redrawn at most ten times a second and cut to the width of the terminal; and a line for each
// validation and each epoch, broken at spaces where it is wider. `warnings` gets the message that
// `out` cannot be written. The streams must outlive the reporter. Equivalent to: verbose = 1 of
// Keras.
std::unique_ptr<Reporter> make_progress_bar(std::ostream& out, std::ostream& warnings,
                                            int64_t epochs, int64_t total_steps,
                                            TerminalStyle style = {});
// One line for each epoch and for each validation within one, and notes. Equivalent to: verbose = 2
// of Keras.
std::unique_ptr<Reporter> make_epoch_lines(std::ostream& out, std::ostream& warnings,
                                           int64_t epochs);
// Nothing but notes that begin with "warning", to `warnings`. Equivalent to: verbose = 0 of Keras.
std::unique_ptr<Reporter> make_silence(std::ostream& warnings);
// One JSON object for each line of metrics to `out`; notes to `notes`.
std::unique_ptr<Reporter> make_json_lines(std::ostream& out, std::ostream& notes);
// Passes every call on to several reporters.
std::unique_ptr<Reporter> make_tee(std::vector<std::unique_ptr<Reporter>> reporters);

}  // namespace runtime::session

#endif  // RUNTIME_SESSION_REPORTS_SCREEN_H_
