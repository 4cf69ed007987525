// Layout decisions on disk. A decision is made once for each key and then used again, so that
// measuring noise does not change the arithmetic from run to run.
#ifndef RUNTIME_EXEC_DECISION_CACHE_H_
#define RUNTIME_EXEC_DECISION_CACHE_H_

#include <filesystem>
#include <optional>
#include <string>

#include "plugins/host/device.h"
#include "runtime/graph/layout.h"

namespace runtime::exec {

// Format: text, line 1 "runtime-layouts 2", line 2 a hash of the key (not the one in the file's
// name), then one line a node: algorithm, ns, implementation, number of inputs and outputs, and
// layout and bytes of each; the last line is "end". Written to a temporary file and renamed.
class DecisionCache {
 public:
  // An empty folder: nothing is found and nothing kept.
  DecisionCache(std::filesystem::path folder, std::string key);

  // nullopt if there is none or the file is damaged (it is then measured again). `nodes` is the
  // expected length.
  std::optional<graph::LayoutDecision> read(size_t nodes) const;
  // A folder that cannot be written is no error: the decision is made again next time.
  void write(const graph::LayoutDecision& decision) const;

 private:
  std::filesystem::path file_;
  std::string key_;
};

// Everything that a decision depends on.
std::string decision_key(const plugins::host::Device& device, const graph::Graph& graph,
                         const std::string& tune);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_DECISION_CACHE_H_
