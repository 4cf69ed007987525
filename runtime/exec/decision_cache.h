// Layout decisions on disk. A decision is made once for each key and then used again, so that
// measuring noise does not change the arithmetic from run to run.
#ifndef RUNTIME_EXEC_DECISION_CACHE_H_
#define RUNTIME_EXEC_DECISION_CACHE_H_

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "plugins/host/device.h"
#include "runtime/graph/layout.h"

namespace runtime::exec {

// The decisions that the programs of a rank were compiled with, by the name of their file. They are
// used before those on disk: a run that goes on from a checkpoint brings its own. One thread.
class DecisionBook {
 public:
  DecisionBook() = default;
  explicit DecisionBook(std::map<std::string, std::string> texts) : texts_(std::move(texts)) {}
  const std::map<std::string, std::string>& all() const { return texts_; }
  // The text of a file, nullptr if there is none.
  const std::string* find(const std::string& name) const;
  void keep(const std::string& name, std::string text) { texts_[name] = std::move(text); }

 private:
  std::map<std::string, std::string> texts_;
};

// File format: text. Line 1 is "runtime-layouts 3", line 2 a hash of the key (another one than in
// the file's name), then one line for each node: algorithm, ns, implementation, number of inputs
// and outputs, and layout and bytes of each; the last line is "end". The file is written under a
// temporary name and renamed.
class DecisionCache {
 public:
  // With an empty folder nothing is kept on disk. `book` must outlive this object.
  DecisionCache(std::filesystem::path folder, std::string key, DecisionBook& book);

  // The decision for `nodes` nodes, of the book or else of the disk; nullopt if there is none or
  // its text is damaged. A decision of the disk is put into the book.
  std::optional<graph::LayoutDecision> read(size_t nodes) const;
  // Keeps it in both. Errors are ignored: if the folder cannot be written, the decision is made
  // again next time.
  void write(const graph::LayoutDecision& decision) const;

 private:
  std::optional<graph::LayoutDecision> parse(const std::string& text, size_t nodes) const;

  std::filesystem::path folder_;
  std::string name_, key_;
  DecisionBook& book_;
};

// Everything that a decision depends on, as text: plugin build, device, its options, graph and
// tune, and the same of the fallback device (null: none).
std::string decision_key(const plugins::host::Device& device, const graph::Graph& graph,
                         const std::string& tune, const plugins::host::Device* fallback = nullptr);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_DECISION_CACHE_H_
