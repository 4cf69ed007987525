// Prepares all candidates of an operation, then launches them in batches, in turns where they are
// close.
#include "runtime/exec/contest.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "plugins/host/drain.h"
#include "plugins/host/error.h"

namespace runtime::exec {

namespace {

using plugins::host::Operation;
using Outcome = Measurement::Outcome;

// A batch has as many launches as take kBatchNs, because a launch of a few microseconds differs by
// a multiple from the next, and fewer than kMostLaunches.
constexpr int kMostLaunches = 100;
constexpr double kBatchNs = 3e5;
// A candidate that takes this many times as long as the best one so far is not launched again, so
// that a slow one for a large product does not use up the budget of all nodes: kHopeless if a
// launch takes less than a batch, else kSlower. A first launch may include the loading of code,
// which is allowed to take so long in addition; a device that works in the calling thread has most
// of it loaded when the plan is made. A launch below kShortNs is repeated before that is said,
// because it may have been disturbed.
constexpr double kHopeless = 3, kSlower = 2;
constexpr double kInlineLoadingNs = 5e7, kLoadingNs = 5e8, kShortNs = 2e7;
constexpr int kTries = 2;

void take_choice(Operation& op, const graph::Candidate& candidate) {
  set_layouts(op, candidate.input_layouts, candidate.output_layouts);
  op.algorithm = candidate.algorithm;
}

std::string layouts_of(const Operation& op) {
  std::string text;
  for (const auto* list : {&op.inputs, &op.outputs}) {
    for (const rt_tensor_desc& operand : *list) text += std::to_string(operand.layout) + ' ';
  }
  return text;
}

}  // namespace

void set_layouts(Operation& op, const std::vector<uint64_t>& inputs,
                 const std::vector<uint64_t>& outputs) {
  for (size_t i = 0; i < op.inputs.size(); ++i) op.inputs[i].layout = inputs[i];
  for (size_t i = 0; i < op.outputs.size(); ++i) op.outputs[i].layout = outputs[i];
}

std::vector<graph::Candidate> offered_candidates(plugins::host::Device& device,
                                                 const Operation& op) {
  std::vector<graph::Candidate> list;
  const plugins::host::Support answer = device.query(op);
  // In given layouts a device may fuse fewer post-operations than in layouts of its own choice.
  if (answer.level == RT_SUPPORT_REFUSED || answer.post_ops_fused < op.post_ops.size()) return list;
  const size_t inputs = op.inputs.size(), outputs = op.outputs.size();
  for (const rt_candidate& c : answer.candidates) {
    graph::Candidate& out = list.emplace_back();
    out.algorithm = c.algorithm;
    out.ns = c.estimated_ns;
    out.input_layouts.assign(c.input_layouts, c.input_layouts + inputs);
    out.output_layouts.assign(c.output_layouts, c.output_layouts + outputs);
    out.input_bytes.assign(c.input_bytes, c.input_bytes + inputs);
    out.output_bytes.assign(c.output_bytes, c.output_bytes + outputs);
    out.implementation = c.implementation;
  }
  return list;
}

// The forward operation in some layouts, and what it saves in them.
struct Contest::Forward {
  explicit Forward(Operation in_layouts) : operation(std::move(in_layouts)), names(operation) {}

  Operation operation;
  OperandNames names;
  plugins::host::Kernel kernel;
  plugins::host::Memory saved;
};

struct Contest::Entrant {
  plugins::host::Kernel kernel;
  Forward* forward = nullptr;  // null where no saved data are read
  std::optional<TimedKernel> timed = std::nullopt;
};

Contest::Contest(plugins::host::Device& device, plugins::host::Stream& stream,
                 OperandNumbers& numbers, const Subject& subject,
                 const std::vector<graph::Candidate>& candidates)
    : device_(device),
      stream_(stream),
      numbers_(numbers),
      subject_(subject),
      candidates_(candidates),
      timer_(device),
      entrants_(candidates.size()),
      results_(candidates.size()),
      best_(std::numeric_limits<double>::infinity()) {}

Contest::~Contest() {
  const plugins::host::Drain drain(stream_);  // kernels and operands are freed behind it
}

// Calls, and returns whether the operation has worked.
bool Contest::works(const std::function<void()>& call) {
  try {
    call();
    return true;
  } catch (const plugins::host::Error& e) {
    const bool ours = e.scope() == RT_SCOPE_OPERATION || e.scope() == RT_SCOPE_STREAM;
    if (e.code() == RT_ERROR_OUT_OF_MEMORY || !ours) throw;
    if (e.scope() == RT_SCOPE_STREAM) stream_ = device_.create_stream();
    return false;
  }
}

// The forward operation for a backward operation in these layouts; null if the device has none.
Contest::Forward* Contest::forward_for(const Operation& backward) {
  Operation op = in_layouts_of(*subject_.forward, backward);
  std::unique_ptr<Forward>& forward = forwards_[layouts_of(op)];
  if (forward != nullptr) return forward.get();
  const std::vector<graph::Candidate> offered = offered_candidates(device_, op);
  if (offered.empty()) return nullptr;
  take_choice(op, offered.front());
  auto made = std::make_unique<Forward>(std::move(op));
  if (!works([&] { made->kernel = device_.create_kernel(made->operation); })) return nullptr;
  need(made->names, offered.front());
  buffers_.need("workspace", made->kernel.info().workspace_bytes);
  forward = std::move(made);
  return forward.get();
}

void Contest::prepare(size_t i) {
  const graph::Candidate& c = candidates_[i];
  const auto too_large = [&](uint64_t bytes) { return bytes > device_.largest_buffer(); };
  results_[i].outcome = Outcome::kFailed;
  if (std::any_of(c.input_bytes.begin(), c.input_bytes.end(), too_large) ||
      std::any_of(c.output_bytes.begin(), c.output_bytes.end(), too_large))
    return;
  Operation op = subject_.operation;
  take_choice(op, c);
  Entrant& entrant = entrants_[i];
  if (subject_.forward) {
    entrant.forward = forward_for(op);
    if (entrant.forward == nullptr) {
      obstacle_ = device_.id() + " does not offer " + subject_.forward->name +
                  " in the layouts of " + c.implementation;
      results_[i].outcome = Outcome::kUnknown;
      return;
    }
    op.forward = entrant.forward->kernel.get();
  }
  if (!works([&] { entrant.kernel = device_.create_kernel(op); })) return;
  const rt_plan_info& info = entrant.kernel.info();
  if (too_large(info.workspace_bytes) || too_large(info.saved_bytes)) return;
  need(OperandNames(op), c);
  buffers_.need("workspace", info.workspace_bytes);
  buffers_.need("saved", info.saved_bytes);
  results_[i].outcome = Outcome::kUnknown;
}

void Contest::need(const OperandNames& names, const graph::Candidate& candidate) {
  for (size_t i = 0; i < names.inputs.size(); ++i)
    buffers_.need(names.inputs[i], candidate.input_bytes[i]);
  for (size_t i = 0; i < names.outputs.size(); ++i)
    buffers_.need(names.outputs[i], candidate.output_bytes[i]);
}

void Contest::fill_inputs(const Operation& operation, const OperandNames& names) {
  for (size_t i = 0; i < names.inputs.size(); ++i) {
    const std::string& name = names.inputs[i];
    if (buffers_.at(name) == nullptr) continue;  // of candidates that failed
    numbers_.fill(stream_, buffers_.at(name), buffers_.bytes(name), operation.inputs[i].dtype,
                  range_of(operation, i));
  }
}

// Candidates share the buffers; one that needs no workspace or saves nothing is given none.
LaunchAddresses Contest::addresses(const OperandNames& names, const rt_plan_info& info) const {
  LaunchAddresses a;
  for (const std::string& name : names.inputs) a.inputs.push_back(buffers_.at(name));
  for (const std::string& name : names.outputs) a.outputs.push_back(buffers_.at(name));
  if (info.workspace_bytes > 0) a.workspace = buffers_.at("workspace");
  if (info.saved_bytes > 0) a.saved = buffers_.at("saved");
  return a;
}

// Runs the forward operation. It writes over what its backward operation reads of its results.
void Contest::save(Forward& forward) {
  if (const uint64_t bytes = forward.kernel.info().saved_bytes; bytes > 0)
    forward.saved = device_.allocate(bytes);
  LaunchAddresses a = addresses(forward.names, forward.kernel.info());
  a.saved = forward.saved.data();
  const rt_launch launch = a.launch();
  forward.kernel.launch(stream_, launch);
  stream_.synchronize();
}

void Contest::make_operands() {
  buffers_.allocate(device_);
  const OperandNames names(subject_.operation);
  fill_inputs(subject_.operation, names);
  for (const auto& by_layouts : forwards_) {
    Forward* const forward = by_layouts.second.get();
    if (forward == nullptr) continue;
    fill_inputs(forward->operation, forward->names);
    if (!works([&] { save(*forward); })) obstacle_ = subject_.forward->name + " failed";
  }
  stream_.synchronize();
  for (Entrant& entrant : entrants_) {
    if (!entrant.kernel) continue;
    LaunchAddresses a = addresses(names, entrant.kernel.info());
    if (entrant.forward != nullptr) a.saved = entrant.forward->saved.data();
    entrant.timed.emplace(stream_, timer_, entrant.kernel, std::move(a));
  }
}

void Contest::measure(size_t i, TuneBudget& budget) {
  TimedKernel& timed = *entrants_[i].timed;
  LaunchTimes& times = results_[i].times;
  const double first = timed.launch_first();  // not counted
  const double loading = device_.is_inline() ? kInlineLoadingNs : kLoadingNs;
  if (first > kHopeless * best_ + loading) return times.add(first);
  double ns = std::numeric_limits<double>::infinity();
  const auto gives_up = [&] { return ns > (ns < kBatchNs ? kHopeless : kSlower) * best_; };
  for (int tries = 0; tries < kTries; ++tries) {
    const double once = timed.launch_batch();
    budget.ns -= once;
    ns = std::min(ns, once);
    if (!gives_up() || ns >= kShortNs) break;
  }
  if (gives_up()) return times.add(ns);
  const bool is_short = ns < kBatchNs;
  if (!is_short) times.add(ns);
  const int launches = static_cast<int>(kBatchNs / std::max(ns, 1.0));
  timed.set_batch(std::clamp(launches, 1, kMostLaunches), is_short);
  while (times.size() < kFirstTimes) {
    const double together = timed.launch_batch();
    budget.ns -= together;
    times.add(together / timed.batch());
  }
  best_ = std::min(best_, times.time());
}

// One more number for a candidate; false if nothing more shall be measured.
bool Contest::measure_batch(size_t i, TuneBudget& budget) {
  if (budget.is_spent()) return false;
  TimedKernel& timed = *entrants_[i].timed;
  const bool good = works([&] {
    const double together = timed.launch_batch();
    budget.ns -= together;
    results_[i].times.add(together / timed.batch());
  });
  if (!good) results_[i] = {Outcome::kFailed};
  return true;
}

// The candidates in the order of their estimates, so that the slow ones meet a fast one.
std::vector<size_t> Contest::order() const {
  std::vector<size_t> order(candidates_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto estimate = [&](size_t i) {
    return candidates_[i].ns > 0 ? candidates_[i].ns : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return estimate(a) < estimate(b); });
  return order;
}

std::vector<Measurement> Contest::run(TuneBudget& budget, double worthwhile_ns) {
  for (size_t i = 0; i < candidates_.size() && obstacle_.empty(); ++i) prepare(i);
  if (obstacle_.empty()) make_operands();
  if (!obstacle_.empty()) return std::vector<Measurement>(candidates_.size());
  for (const size_t i : order()) {
    if (results_[i].outcome == Outcome::kFailed) continue;
    if (budget.is_spent()) return results_;
    if (works([&] { measure(i, budget); }))
      results_[i].outcome = Outcome::kTimes;
    else
      results_[i] = {Outcome::kFailed};
  }
  if (best_ < worthwhile_ns) return results_;
  std::vector<LaunchTimes> times;
  for (const Measurement& result : results_) times.push_back(result.times);
  repeat_close(times, [&](size_t i) {
    const bool more = measure_batch(i, budget);
    times[i] = results_[i].times;
    return more;
  });
  return results_;
}

}  // namespace runtime::exec
