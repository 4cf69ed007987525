// Measures what the operations of a program take, and gives known times to those that are alike.
#include <chrono>
#include <map>
#include <numeric>
#include <set>

#include "runtime/exec/program.h"
#include "runtime/median.h"

namespace runtime::exec {

using graph::kNone;
using graph::Node;
using graph::ValueId;
using graph::ValueKind;

namespace {

// Rounds are measured until they are enough for a median and have taken kShortMeasureSeconds, or
// until they have taken kMeasureSeconds.
constexpr double kMeasureSeconds = 0.2, kShortMeasureSeconds = 0.02;
constexpr size_t kMeasureRounds = 5;
// So many nodes of a kind are measured, because one that runs again and again alone finds its
// operands in a cache.
constexpr int kMeasuredNodes = 8;

}  // namespace

// Fills the buffers that a collective would write with zeros, because arbitrary bytes may be slow
// to compute with (subnormal numbers).
void Program::fill_received(size_t node, plugins::host::Stream& stream) {
  if (graph_.nodes[node].collective->wait) return;
  for (ValueId v : graph_.nodes[node].outputs) {
    if (!is_persistent(graph_.value(graph_.storage(v)).kind))
      stream.fill(address(v), 0, graph::canonical_bytes(graph_.value(v)));
  }
  stream.synchronize();
}

// The nodes to run, in their order: the first ones of each kind without a time, all on the fallback
// device, whose copies are measured with them, and the forward nodes that backward nodes need.
std::set<size_t> Program::unmeasured(const NodeTimes& known) const {
  std::map<std::string, int> seen;
  std::set<size_t> nodes;
  std::map<ValueId, size_t> saves;  // the forward node of a saved value
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (node.collective) continue;
    const bool reads = node.saved != kNone && node.is_backward();
    if (node.saved != kNone && !reads) saves[node.saved] = i;
    const std::string key = node_key(graph_, node, updates_parameters_);
    if (!node.on_fallback && (known.contains(key) || seen[key]++ >= kMeasuredNodes)) continue;
    nodes.insert(i);
    if (reads) nodes.insert(saves.at(node.saved));
  }
  return nodes;
}

bool Program::take_times(const NodeTimes& known) {
  std::vector<double> ns(graph_.nodes.size(), 0);
  for (size_t i = 0; i < ns.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (node.collective) continue;
    const auto it = known.find(node_key(graph_, node, updates_parameters_));
    if (it == known.end() || node.on_fallback) return false;
    ns[i] = it->second;
  }
  for (size_t i = 0; i < ns.size(); ++i) graph_.nodes[i].estimated_ns = ns[i];
  return true;
}

// Fills what a node reads with zeros if no node of this pass has written it, because arbitrary
// bytes may be slow to compute with (subnormal numbers) or no indices. Returns the seconds that
// this took.
double Program::fill_unwritten(size_t node, std::set<ValueId>& written,
                               plugins::host::Stream& stream) {
  const auto begin = std::chrono::steady_clock::now();
  bool filled = false;
  for (const ValueId v : graph_.nodes[node].inputs) {
    const ValueId storage = graph_.storage(v);
    if (is_persistent(graph_.value(storage).kind) ||
        graph_.value(storage).kind == ValueKind::kInput || written.contains(storage))
      continue;
    if (graph_.value(v).bytes > 0) stream.fill(address(v), 0, graph_.value(v).bytes);
    filled = true;
  }
  for (const ValueId v : graph_.nodes[node].outputs) written.insert(graph_.storage(v));
  if (!filled) return 0;
  stream.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Program::measure(plugins::host::Stream& stream, const std::function<void()>& upload,
                        NodeTimes& known) {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  const std::set<size_t> nodes = unmeasured(known);
  std::vector<double> inputs, wholes, ns(graph_.nodes.size(), 0);
  // One pass; with `each` it waits after every node.
  const auto whole = [&](bool each) {
    const auto begin = Clock::now();
    upload();
    stream.synchronize();
    inputs.push_back(Seconds(Clock::now() - begin).count());
    double filling = 0;
    std::set<ValueId> written;
    for (const size_t i : nodes) {
      filling += fill_unwritten(i, written, stream);
      const auto start = Clock::now();
      launch(i, stream);
      if (!each) continue;
      stream.synchronize();
      ns[i] = Seconds(Clock::now() - start).count() * 1e9;
    }
    finish_update();
    stream.synchronize();
    wholes.push_back(Seconds(Clock::now() - begin).count() - inputs.back() - filling);
    return inputs.back() + wholes.back();
  };
  bind();
  whole(false);  // not counted: libraries load code, pages are mapped
  inputs.clear();
  wholes.clear();
  // One round is enough for a step that takes long.
  for (double spent = 0;
       spent < (wholes.size() < kMeasureRounds ? kMeasureSeconds : kShortMeasureSeconds);)
    spent += whole(false);
  const double seconds = median(inputs), together = median(wholes);
  whole(true);
  const double sum = std::accumulate(ns.begin(), ns.end(), 0.0);
  // Waiting for each node takes time that a step does not take, so times are scaled to the whole.
  const double scale = sum > 0 ? together * 1e9 / sum : 0;
  std::map<std::string, std::pair<double, int>> sums;  // by kind: nanoseconds and nodes
  for (const size_t i : nodes) {
    Node& node = graph_.nodes[i];
    node.estimated_ns = ns[i] * scale;
    if (node.on_fallback) continue;
    auto& [total, count] = sums[node_key(graph_, node, updates_parameters_)];
    total += node.estimated_ns;
    ++count;
  }
  for (const auto& [key, of] : sums) known.emplace(key, of.first / of.second);
  for (Node& node : graph_.nodes) {
    if (node.collective || node.on_fallback) continue;
    node.estimated_ns = known.at(node_key(graph_, node, updates_parameters_));
  }
  fallback_.scale_times(scale);
  return seconds;
}

}  // namespace runtime::exec
