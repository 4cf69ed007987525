// Asks a plugin for support and candidates, and measures candidates within a budget of time.
#include "runtime/exec/device_target.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "runtime/exec/fallback.h"
#include "runtime/exec/tuner.h"
#include "runtime/graph/layout.h"
#include "runtime/graph/operation_set.h"
#include "runtime/graph/print.h"
#include "runtime/system/core_waits.h"

namespace runtime::exec {

namespace {

using graph::Graph;
using graph::Node;
using plugins::host::Operation;

// Bytes per second that a copy reads and writes if the device gives no estimate.
constexpr double kCopyBandwidth = 8e9;

rt_tensor_desc describe(const graph::Value& value) {
  return plugins::host::make_tensor_desc(value.dtype, value.dims, value.layout);
}

std::string layouts_text(const std::vector<uint64_t>& layouts) {
  std::string text;
  for (uint64_t l : layouts) text += ":" + std::to_string(l);
  return text;
}

std::vector<uint64_t> canonical(const std::vector<graph::ValueId>& operands) {
  return std::vector<uint64_t>(operands.size(), RT_LAYOUT_CANONICAL);
}

// Whether operands may be canonical where these layouts are asked for.
bool allow_canonical(const std::vector<uint64_t>& layouts) {
  return std::all_of(layouts.begin(), layouts.end(), [](uint64_t layout) {
    return layout == RT_LAYOUT_CANONICAL || layout == RT_LAYOUT_ANY;
  });
}

// Nanoseconds of the copies to the host and back that a node on the fallback device takes.
double copies_ns(const Graph& graph, const Node& node) {
  uint64_t bytes = 0;
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (graph::ValueId v : *operands) bytes += graph::canonical_bytes(graph.value(v));
  }
  return host_copy_ns(bytes);
}

std::chrono::nanoseconds time_limit(Tune tune) {
  if (tune == Tune::kFull) return std::chrono::nanoseconds::max();
  return std::chrono::milliseconds(tune == Tune::kQuick ? 1000 : 0);
}

std::function<std::chrono::nanoseconds()> waits_for_cores() {
  return [waits = std::make_shared<system::CoreWaits>()] { return waits->waited(); };
}

DecisionCache cache_for(const TargetOptions& options, const plugins::host::Device& device,
                        const Graph& graph, const std::filesystem::path& folder) {
  return {folder,
          decision_key(device, graph, options.tune == Tune::kFull ? "full" : "quick",
                       options.fallback.get()),
          *options.decisions};
}

}  // namespace

Operation to_operation(const Graph& graph, const Node& node, uint32_t flags,
                       const rt_plan* forward) {
  Operation op;
  op.flags = flags;
  op.name = node.op;
  for (graph::ValueId v : node.inputs) op.inputs.push_back(describe(graph.value(v)));
  for (graph::ValueId v : node.outputs) op.outputs.push_back(describe(graph.value(v)));
  for (const graph::Attribute& a : node.attributes) op.attributes.push_back({a.name, a.value});
  for (const graph::PostOp& p : node.post_ops)
    op.post_ops.push_back({p.kind, p.function, p.operand});
  op.forward = forward;
  op.algorithm = node.algorithm;
  return op;
}

DeviceTarget::DeviceTarget(std::shared_ptr<plugins::host::Device> device, TargetOptions options)
    : device_(std::move(device)),
      options_(std::move(options)),
      tuner_(std::make_unique<Tuner>(device_, time_limit(options_.tune),
                                     options_.waited ? options_.waited : waits_for_cores())) {}

DeviceTarget::~DeviceTarget() = default;

bool DeviceTarget::measures() const {
  return options_.tune != Tune::kOff && !options_.deterministic;
}

Operation DeviceTarget::operation(const Graph& graph, const Node& node) const {
  return to_operation(graph, node, options_.flags());
}

plugins::host::Device& DeviceTarget::device_of(const Node& node) const {
  return node.on_fallback ? *options_.fallback : *device_;
}

graph::Support DeviceTarget::support(const Graph& graph, const Node& node) {
  const std::string key = graph::signature(graph, node);
  const auto it = supports_.find(key);
  if (it != supports_.end()) return it->second;
  Operation op = operation(graph, node);
  if (node.on_fallback) {
    set_layouts(op, canonical(node.inputs), canonical(node.outputs));
  } else {
    set_layouts(op, graph::any_layouts(graph, node, node.inputs),
                graph::any_layouts(graph, node, node.outputs));
  }
  const plugins::host::Support answer = device_of(node).query(op);
  graph::Support support;
  support.supported = answer.level != RT_SUPPORT_REFUSED;
  support.emulated = answer.level == RT_SUPPORT_EMULATED;
  support.post_ops_fused = answer.post_ops_fused;
  support.reason = answer.reason;
  if (options_.deterministic && support.supported && !answer.deterministic) {
    support.supported = false;
    support.reason =
        "it gives other bits every time, and debug.deterministic = true needs the same ones";
  }
  return supports_[key] = support;
}

std::vector<graph::Candidate> DeviceTarget::candidates(
    const Graph& graph, const Node& node, const std::vector<uint64_t>& input_layouts,
    const std::vector<uint64_t>& output_layouts) {
  const std::string key = graph::signature(graph, node) + layouts_text(input_layouts) + '>' +
                          layouts_text(output_layouts);
  const auto it = candidates_.find(key);
  if (it != candidates_.end()) return it->second;
  if (node.on_fallback)
    return candidates_[key] = fallback_candidates(graph, node, input_layouts, output_layouts);
  Operation op = operation(graph, node);
  set_layouts(op, input_layouts, output_layouts);
  return candidates_[key] = offered_candidates(*device_, op);
}

// A time that the fallback device does not know stays unknown, without that of the copies.
std::vector<graph::Candidate> DeviceTarget::fallback_candidates(
    const Graph& graph, const Node& node, const std::vector<uint64_t>& input_layouts,
    const std::vector<uint64_t>& output_layouts) {
  if (!allow_canonical(input_layouts) || !allow_canonical(output_layouts)) return {};
  Operation op = operation(graph, node);
  set_layouts(op, canonical(node.inputs), canonical(node.outputs));
  std::vector<graph::Candidate> list = offered_candidates(*options_.fallback, op);
  for (graph::Candidate& candidate : list) {
    if (candidate.ns > 0) candidate.ns += copies_ns(graph, node);
    candidate.implementation = fallback_name() + ": " + candidate.implementation;
  }
  return list;
}

namespace {

// What tells a candidate of a node from those of other nodes.
std::string key_of(const Graph& graph, const Node& node, const graph::Candidate& c) {
  return graph::signature(graph, node) + '@' + std::to_string(c.algorithm) +
         layouts_text(c.input_layouts) + '>' + layouts_text(c.output_layouts);
}

// The forward node whose saved data a backward node reads; null if it reads none.
const Node* forward_node(const Graph& graph, const Node& node) {
  if (node.saved == graph::kNone || !node.is_backward()) return nullptr;
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& other) {
    return other.saved == node.saved && !other.is_backward();
  });
  return found == graph.nodes.end() ? nullptr : &*found;
}

}  // namespace

void DeviceTarget::measure(const Graph& graph, const Node& node,
                           std::vector<graph::Candidate>& candidates) {
  using Outcome = Measurement::Outcome;
  if (node.on_fallback) return;  // estimates of the fallback device stay
  Subject subject{operation(graph, node)};
  if (const Node* const forward = forward_node(graph, node))
    subject.forward = operation(graph, *forward);
  std::vector<std::string> keys;
  for (const graph::Candidate& c : candidates) keys.push_back(key_of(graph, node, c));
  const std::vector<Measurement> found = tuner_->measure(subject, candidates, keys);
  std::vector<graph::Candidate> working;
  std::vector<LaunchTimes> times;
  std::vector<double> estimates;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (found[i].outcome == Outcome::kUnknown) return;  // estimates and times are not mixed
    if (found[i].outcome == Outcome::kFailed) continue;
    working.push_back(candidates[i]);
    times.push_back(found[i].times);
    estimates.push_back(candidates[i].ns);
  }
  if (working.empty()) return;  // somebody else reports it
  const std::vector<double> ns = settled(times, estimates);
  for (size_t i = 0; i < working.size(); ++i) working[i].ns = ns[i];
  candidates = std::move(working);
}

std::vector<std::string> DeviceTarget::notes() const { return tuner_->notes(); }

double DeviceTarget::copy_ns(const graph::Value& value, uint64_t from, uint64_t to) {
  const std::string key =
      std::to_string(value.dtype) + graph::to_string(value.dims) + layouts_text({from, to});
  const auto it = copies_.find(key);
  if (it != copies_.end()) return it->second;
  Operation op;
  op.name = RT_OP_COPY;
  op.inputs = {plugins::host::make_tensor_desc(value.dtype, value.dims, from)};
  op.outputs = {plugins::host::make_tensor_desc(value.dtype, value.dims, to)};
  const plugins::host::Support answer = device_->query(op);
  double ns = std::numeric_limits<double>::infinity();
  if (answer.level != RT_SUPPORT_REFUSED && !answer.candidates.empty()) {
    ns = answer.candidates[0].estimated_ns;
    if (ns <= 0)
      ns = static_cast<double>(layout_bytes(value, from) + layout_bytes(value, to)) /
           kCopyBandwidth * 1e9;
  }
  return copies_[key] = ns;
}

uint64_t DeviceTarget::layout_bytes(const graph::Value& value, uint64_t layout) {
  if (layout == RT_LAYOUT_CANONICAL) return graph::canonical_bytes(value);
  return device_->layout_bytes(plugins::host::make_tensor_desc(value.dtype, value.dims, layout));
}

std::optional<graph::LayoutDecision> DeviceTarget::remembered(const Graph& graph) {
  if (!measures()) return std::nullopt;
  return cache_for(options_, *device_, graph, options_.cache_folder).read(graph.nodes.size());
}

void DeviceTarget::remember(const Graph& graph, const graph::LayoutDecision& decision) {
  if (!measures()) return;
  const auto folder = tuner_->was_busy() ? std::filesystem::path() : options_.cache_folder;
  cache_for(options_, *device_, graph, folder).write(decision);
}

namespace {

// As the list of users has it: services and containers often run without the variable HOME. "": the
// user is not listed.
std::string home_of_this_user() {
  std::array<char, 4096> texts;
  passwd entry{}, *found = nullptr;
  ::getpwuid_r(::getuid(), &entry, texts.data(), texts.size(), &found);
  return found == nullptr || found->pw_dir == nullptr ? "" : found->pw_dir;
}

}  // namespace

std::filesystem::path default_cache_folder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0')
    return std::filesystem::path(xdg) / "runtime";
  std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  if (home.empty()) home = home_of_this_user();
  return home.empty() ? std::filesystem::path()
                      : std::filesystem::path(home) / ".cache" / "runtime";
}

}  // namespace runtime::exec
