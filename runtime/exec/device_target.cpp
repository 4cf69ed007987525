// Asks a plugin for support and candidates, and measures candidates within a budget of time.
#include "runtime/exec/device_target.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <limits>

#include "plugins/host/drain.h"
#include "plugins/host/error.h"
#include "runtime/exec/decision_cache.h"
#include "runtime/exec/fallback.h"
#include "runtime/graph/layout.h"
#include "runtime/graph/operation_set.h"
#include "runtime/graph/print.h"

namespace runtime::exec {

namespace {

using graph::Graph;
using graph::Node;
using plugins::host::Operation;

// Enough to hide the clock's resolution and one disturbance, few enough for the time budget. Short
// launches are repeated for kMeasuredNs in all, because one of a few microseconds differs by a
// multiple from the next.
constexpr int kMeasuredLaunches = 3, kMostLaunches = 100;
constexpr double kMeasuredNs = 1e6;
// A candidate that takes this many times as long as the best one so far is not launched again, so
// that a slow one for a large product does not use up the budget of all nodes. Its first launch may
// include the loading of its code, for which kLoadingNs are allowed in addition.
constexpr double kHopeless = 3;
constexpr double kLoadingNs = 5e7;
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

void set_layouts(Operation& op, const std::vector<uint64_t>& inputs,
                 const std::vector<uint64_t>& outputs) {
  for (size_t i = 0; i < op.inputs.size(); ++i) op.inputs[i].layout = inputs[i];
  for (size_t i = 0; i < op.outputs.size(); ++i) op.outputs[i].layout = outputs[i];
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

graph::Candidate to_candidate(const rt_candidate& c, size_t inputs, size_t outputs) {
  graph::Candidate out;
  out.algorithm = c.algorithm;
  out.ns = c.estimated_ns;
  out.input_layouts.assign(c.input_layouts, c.input_layouts + inputs);
  out.output_layouts.assign(c.output_layouts, c.output_layouts + outputs);
  out.input_bytes.assign(c.input_bytes, c.input_bytes + inputs);
  out.output_bytes.assign(c.output_bytes, c.output_bytes + outputs);
  out.implementation = c.implementation;
  return out;
}

std::chrono::nanoseconds time_limit(Tune tune) {
  switch (tune) {
    case Tune::kQuick:
      return std::chrono::milliseconds(1000);
    case Tune::kFull:
      return std::chrono::nanoseconds::max();
    default:
      return std::chrono::nanoseconds(0);
  }
}

DecisionCache cache_for(const TargetOptions& options, const plugins::host::Device& device,
                        const Graph& graph) {
  return {options.cache_folder,
          decision_key(device, graph, options.tune == Tune::kFull ? "full" : "quick",
                       options.fallback.get()),
          *options.decisions};
}

// Nanoseconds of `launch`, which is called kMeasuredLaunches to kMostLaunches times after a first
// call, or fewer times if it is hopeless beside `best`. The first call counts only if it is the
// last one.
double time_launches(const std::function<void()>& launch, double best) {
  const auto time = [&] {
    const auto begin = std::chrono::steady_clock::now();
    launch();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin)
        .count();
  };
  const double first = time();
  if (first > kHopeless * best + kLoadingNs) return first;
  double shortest = time(), spent = shortest;
  const auto enough = [&](int launches) {
    return launches >= kMostLaunches || (launches >= kMeasuredLaunches && spent >= kMeasuredNs);
  };
  for (int i = 1; !enough(i) && shortest <= kHopeless * best; ++i) {
    const double ns = time();
    spent += ns;
    shortest = std::min(shortest, ns);
  }
  return shortest;
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
      stream_(device_->create_stream()),
      options_(std::move(options)),
      budget_(time_limit(options_.tune)) {}

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
  std::vector<graph::Candidate> list;
  const plugins::host::Support answer = device_->query(op);
  // In the given layouts the device may fuse fewer post-operations than in layouts of its own
  // choice. Only candidates that fuse all of them are listed.
  const bool fuses_all = answer.post_ops_fused >= op.post_ops.size();
  if (answer.level != RT_SUPPORT_REFUSED && fuses_all) {
    for (const rt_candidate& c : answer.candidates)
      list.push_back(to_candidate(c, op.inputs.size(), op.outputs.size()));
  }
  return candidates_[key] = list;
}

// A time that the fallback device does not know stays unknown, without that of the copies.
std::vector<graph::Candidate> DeviceTarget::fallback_candidates(
    const Graph& graph, const Node& node, const std::vector<uint64_t>& input_layouts,
    const std::vector<uint64_t>& output_layouts) {
  std::vector<graph::Candidate> list;
  if (!allow_canonical(input_layouts) || !allow_canonical(output_layouts)) return list;
  Operation op = operation(graph, node);
  set_layouts(op, canonical(node.inputs), canonical(node.outputs));
  const plugins::host::Support answer = options_.fallback->query(op);
  if (answer.level == RT_SUPPORT_REFUSED || answer.post_ops_fused < op.post_ops.size()) return list;
  for (const rt_candidate& c : answer.candidates) {
    list.push_back(to_candidate(c, op.inputs.size(), op.outputs.size()));
    graph::Candidate& candidate = list.back();
    if (candidate.ns > 0) candidate.ns += copies_ns(graph, node);
    candidate.implementation = fallback_name() + ": " + candidate.implementation;
  }
  return list;
}

void DeviceTarget::measure(const Graph& graph, const Node& node,
                           std::vector<graph::Candidate>& candidates) {
  // A backward plan needs its forward plan; its layouts follow those of the forward node anyway.
  if (node.saved != graph::kNone && node.is_backward()) return;
  if (node.on_fallback) return;  // estimates of the fallback device stay
  // Zeros are valid as indices and as numbers. With a factor of 0 an optimizer would skip its work,
  // so its operands are small numbers.
  const bool optimizer = kind_of(graph, node) == graph::Kind::kOptimizer;
  const uint8_t filling = optimizer ? 0x3c : 0;
  std::vector<graph::Candidate> working;
  double best = std::numeric_limits<double>::infinity();
  for (const graph::Candidate& c : candidates) {
    const std::string key = graph::signature(graph, node) + '@' + std::to_string(c.algorithm) +
                            layouts_text(c.input_layouts) + '>' + layouts_text(c.output_layouts);
    auto known = measured_.find(key);
    if (known == measured_.end()) {
      if (budget_.count() <= 0) return;  // estimates and times are not mixed within a node
      const auto begin = std::chrono::steady_clock::now();
      known = measured_.emplace(key, try_measure(operation(graph, node), c, filling, best)).first;
      budget_ -= std::chrono::steady_clock::now() - begin;
    }
    if (known->second.outcome == Measurement::Outcome::kNoMemory) return;
    if (known->second.outcome == Measurement::Outcome::kFailed) continue;
    working.push_back(c);
    working.back().ns = known->second.ns;
    best = std::min(best, known->second.ns);
  }
  if (!working.empty()) candidates = std::move(working);
}

DeviceTarget::Measurement DeviceTarget::try_measure(Operation op, const graph::Candidate& candidate,
                                                    uint8_t filling, double best) {
  using Outcome = Measurement::Outcome;
  try {
    return {Outcome::kTime, measure_one(std::move(op), candidate, filling, best)};
  } catch (const plugins::host::Error& e) {
    if (e.code() == RT_ERROR_OUT_OF_MEMORY)
      return {largest_asked_ > device_->largest_buffer() ? Outcome::kFailed : Outcome::kNoMemory,
              0};
    if (e.scope() != RT_SCOPE_OPERATION && e.scope() != RT_SCOPE_STREAM) throw;
    if (e.scope() == RT_SCOPE_STREAM) stream_ = device_->create_stream();
    return {Outcome::kFailed, 0};
  }
}

double DeviceTarget::measure_one(Operation op, const graph::Candidate& candidate, uint8_t filling,
                                 double best) {
  std::vector<plugins::host::Memory> memory;
  plugins::host::Kernel kernel;
  const plugins::host::Drain drain(stream_);  // these are freed here
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  largest_asked_ = 0;
  const auto buffer = [&](uint64_t bytes) {
    largest_asked_ = std::max(largest_asked_, bytes);
    memory.push_back(device_->allocate(std::max<uint64_t>(bytes, 1)));
    stream_.fill(memory.back().data(), filling, std::max<uint64_t>(bytes, 1));
    return memory.back().data();
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    op.inputs[i].layout = candidate.input_layouts[i];
    inputs.push_back(buffer(candidate.input_bytes[i]));
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    op.outputs[i].layout = candidate.output_layouts[i];
    outputs.push_back(buffer(candidate.output_bytes[i]));
  }
  op.algorithm = candidate.algorithm;
  kernel = device_->create_kernel(op);
  rt_launch launch{};
  launch.size = sizeof(launch);
  launch.inputs = inputs.data();
  launch.input_count = static_cast<uint32_t>(inputs.size());
  launch.outputs = outputs.data();
  launch.output_count = static_cast<uint32_t>(outputs.size());
  launch.workspace =
      kernel.info().workspace_bytes ? buffer(kernel.info().workspace_bytes) : nullptr;
  launch.saved = kernel.info().saved_bytes ? buffer(kernel.info().saved_bytes) : nullptr;
  stream_.synchronize();  // the buffers are filled
  return time_launches(
      [&] {
        kernel.launch(stream_, launch);
        stream_.synchronize();
      },
      best);
}

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
  return cache_for(options_, *device_, graph).read(graph.nodes.size());
}

void DeviceTarget::remember(const Graph& graph, const graph::LayoutDecision& decision) {
  if (measures()) cache_for(options_, *device_, graph).write(decision);
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
