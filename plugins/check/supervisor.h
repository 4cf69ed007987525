// Runs checks in child processes, so that a plugin that crashes, hangs or ends its process costs
// one check only.
#ifndef PLUGINS_CHECK_SUPERVISOR_H_
#define PLUGINS_CHECK_SUPERVISOR_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "plugins/check/check.h"

namespace plugins::check {

// How children are started: this program, with these arguments and behind them `--child`, the index
// of the first check and that behind the last one.
struct ChildCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::chrono::seconds limit{120};  // of one check
};

// Runs all checks, each group in a child of its own. After a check that ended or hung its child,
// the next ones get a new child. `report` is called with each row as it is known.
std::vector<Row> run_in_children(const std::vector<Check>& checks, const ChildCommand& command,
                                 const std::function<void(const Row&)>& report);

// The other side: runs the checks [first, end) and writes their rows to kAnswerDescriptor.
void run_as_child(const std::vector<Check>& checks, Context& context, size_t first, size_t end);

}  // namespace plugins::check

#endif  // PLUGINS_CHECK_SUPERVISOR_H_
