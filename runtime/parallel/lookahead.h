// What becomes of a value further on: whether splitting it pays.
#ifndef RUNTIME_PARALLEL_LOOKAHEAD_H_
#define RUNTIME_PARALLEL_LOOKAHEAD_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::parallel {

using Hints = std::map<std::string, std::string>;
std::string hint_of(const Hints& hints, const std::string& layer);  // "auto" where it is not named

// A product of a value with a parameter: linear layers and convolutions.
bool is_product(const graph::Node& node, const std::set<graph::ValueId>& parameters);
// One result element for each element (or window of one channel) of input 0.
bool is_by_channel(const std::string& op);
bool is_arithmetic(const std::string& op);
bool is_batch_norm(const std::string& op);

// How the readers of a value want it to be split.
struct Demand {
  int64_t blocks = 1, unit = 1;
};

// Over the nodes of a whole forward graph, which must not change.
class Lookahead {
 public:
  Lookahead(const graph::Graph& graph, const std::vector<graph::Node>& nodes,
            const std::set<graph::ValueId>& parameters, const Hints& hints, int ranks);

  // nullopt if a reader needs the value whole; correct_count does not count, since training has
  // none.
  std::optional<Demand> demand(graph::ValueId v) const;

 private:
  bool accepts(const graph::Node& reader, graph::ValueId v, Demand& demand) const;
  bool passes(const graph::Node& reader, Demand& demand) const;
  bool accepts_product(const graph::Node& reader, Demand& demand) const;

  const std::vector<graph::Node>& nodes_;
  const std::set<graph::ValueId>& parameters_;
  const Hints& hints_;
  int ranks_;
  // Before anything is split.
  std::vector<graph::ValueId> storage_;  // by value
  std::vector<graph::Dims> dims_;
  std::unordered_map<graph::ValueId, std::vector<size_t>> readers_;  // by storage
};

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_LOOKAHEAD_H_
