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

// File format: text. Line 1 is "runtime-layouts 2", line 2 a hash of the key (another one than in
// the file's name), then one line for each node: algorithm, ns, implementation, number of inputs
// and outputs, and layout and bytes of each; the last line is "end". The file is written under a
// temporary name and renamed.
class DecisionCache {
 public:
  // With an empty folder nothing is found and nothing is kept.
  DecisionCache(std::filesystem::path folder, std::string key);

  // The decision for `nodes` nodes; nullopt if there is none or the file is damaged.
  std::optional<graph::LayoutDecision> read(size_t nodes) const;
  // Errors are ignored: if the folder cannot be written, the decision is made again next time.
  void write(const graph::LayoutDecision& decision) const;

 private:
  std::filesystem::path file_;
  std::string key_;
};

// Everything that a decision depends on, as text: plugin build, device, its options, graph and
// tune.
std::string decision_key(const plugins::host::Device& device, const graph::Graph& graph,
                         const std::string& tune);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_DECISION_CACHE_H_
