// Creates the kernels of a graph, places its values, records what the device can, and runs the
// nodes.
#include "runtime/exec/program.h"

#include <algorithm>
#include <chrono>

#include "runtime/error.h"
#include "runtime/exec/device_target.h"
#include "runtime/exec/encode.h"
#include "runtime/graph/host_operations.h"
#include "runtime/graph/print.h"

namespace runtime::exec {

namespace {

// Calls the plugin for a node; an error of the plugin then names the layer.
template <typename Call>
void named(const graph::Node& node, Call&& call) {
  try {
    call();
  } catch (const plugins::host::Error& error) {
    throw plugins::host::Error(error.code(),
                               "layer '" + node.layer + "', " + node.op + ": " + error.what(),
                               error.scope());
  }
}

}  // namespace

using graph::kNone;
using graph::Node;
using graph::Phase;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

Program::Program(graph::Graph graph, std::shared_ptr<plugins::host::Device> device,
                 Storage& storage, Arena& arena, const CompileOptions& options)
    : graph_(std::move(graph)),
      device_(std::move(device)),
      storage_(storage),
      arena_(arena),
      collectives_(options.collectives),
      flags_(options.target.flags()),
      fallback_(options.target.fallback, device_),
      record_(options.record && device_->plugin().capture_api() != nullptr) {
  create_kernels();
  fallback_.plan(graph_, kernels_);
  place();
}

Program::~Program() {
  if (collectives_ != nullptr) collectives_->release(calls_);
  segments_.clear();  // recordings use the kernels
  // A backward plan must be destroyed before the forward plan that it was made from.
  while (!kernels_.empty()) kernels_.pop_back();
}

// A plan says itself whether it keeps the promise that it was asked for.
void Program::check_promise(const rt_plan_info& info, const Node& node) const {
  if ((flags_ & RT_OP_DETERMINISTIC) == 0 || (info.flags & RT_PLAN_DETERMINISTIC) != 0) return;
  const std::string& device = node.on_fallback ? fallback_.device()->id() : device_->id();
  throw DeviceError("layer '" + node.layer + "' needs a deterministic " + node.op +
                    " (debug.deterministic = true), but the plan that " + device +
                    " made for it (" + info.implementation +
                    ") gives other bits every time; choose another device.backend, or set "
                    "debug.deterministic = false");
}

// Appends the kernel of a node.
void Program::create_kernel(graph::Node& node, const rt_plan* forward) {
  const auto& device = node.on_fallback ? fallback_.device() : device_;
  if (device == nullptr) {
    throw InternalError("layer '" + node.layer + "': " + node.op +
                        " is to run on a fallback device, and the program has none");
  }
  plugins::host::Operation operation = to_operation(graph_, node, flags_, forward);
  operation.label = "layer '" + node.layer + "'";
  named(node, [&] { kernels_.emplace_back(device, operation); });
  const rt_plan_info& info = kernels_.back().info();
  device->plugin().name_object(kernels_.back().get(), operation.label);
  check_promise(info, node);
  if (!node.implementation.empty()) return;
  node.implementation = (node.on_fallback ? device->id() + ": " : "") + info.implementation;
}

void Program::create_kernels() {
  std::vector<const rt_plan*> forward_plans(graph_.values.size(), nullptr);  // by saved value
  kernels_.reserve(graph_.nodes.size());
  for (Node& node : graph_.nodes) {
    updates_parameters_ |= node.phase == Phase::kUpdate;
    if (node.collective) {
      kernels_.emplace_back();
      if (node.collective->wait || collectives_ == nullptr) continue;
      calls_.resize(std::max<size_t>(calls_.size(), node.collective->token + 1));
      calls_[node.collective->token] = collectives_->prepare(graph_, node, device_);
      continue;
    }
    if (graph::is_host_operation(node.op)) {
      host_kernels_.emplace(kernels_.size(), HostKernel(graph_, node));
      kernels_.emplace_back();
      node.implementation = "the host";
      continue;
    }
    const bool backward = node.saved != kNone && node.is_backward();
    create_kernel(node, backward ? forward_plans[node.saved] : nullptr);
    const plugins::host::Kernel& kernel = kernels_.back();
    if (node.saved != kNone && !backward) {
      forward_plans[node.saved] = kernel.get();
      graph_.value(node.saved).bytes = kernel.info().saved_bytes;
    }
    // In an evaluation no node reads what this forward node saves, but its kernel writes it.
    if (node.saved == kNone && kernel.info().saved_bytes > 0) {
      node.saved = graph_.add_value(node.layer + ".saved", ValueKind::kTemporary,
                                    {static_cast<int64_t>(kernel.info().saved_bytes)}, RT_UINT8);
    }
  }
}

// What the nodes need in the arena of the device.
std::vector<NodeNeeds> Program::needs() {
  std::vector<NodeNeeds> needs(kernels_.size());
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (const auto& collective = graph_.nodes[i].collective) {
      // A program that is only planned has no communicators; they are taken to work in place.
      const bool in_place = collectives_ == nullptr || calls_[collective->token].in_place;
      const bool sums = collective->kind == RT_ALL_REDUCE && !collective->wait;
      needs[i].in_place.assign(1, sums && in_place ? 1 : 0);
      continue;
    }
    if (!graph::has_kernel(graph_.nodes[i]) || graph_.nodes[i].on_fallback) continue;
    const rt_plan_info& info = kernels_[i].info();
    needs[i].workspace_bytes = info.workspace_bytes;
    needs[i].in_place.assign(info.in_place, info.in_place + RT_MAX_OUTPUTS);
    memory_.largest_workspace = std::max(memory_.largest_workspace, info.workspace_bytes);
  }
  return needs;
}

namespace {

// "conv2d of layer 'conv1': output 0 (float32 [256, 24, 24, 20])".
std::string operand_of(const graph::Graph& graph, const PlacedBuffer& buffer) {
  const auto of = [](const Node& node, const std::string& operand) {
    return node.op + " of layer '" + node.layer + "': " + operand;
  };
  if (buffer.values.empty()) return of(graph.nodes[buffer.first], "its workspace");
  const ValueId v = buffer.values.front();
  const Value& value = graph.value(v);
  const std::string shape =
      " (" + graph::name_of(value.dtype) + " " + graph::to_string(value.dims) + ")";
  for (const Node& node : graph.nodes) {
    if (node.saved == v) return of(node, "what it saves for its gradient");
    for (const auto* list : {&node.outputs, &node.inputs}) {
      const auto found = std::find_if(list->begin(), list->end(), [&](ValueId operand) {
        return operand != kNone && graph.storage(operand) == v;
      });
      if (found == list->end()) continue;
      return of(node, (list == &node.outputs ? "output " : "input ") +
                          std::to_string(found - list->begin()) + shape);
    }
  }
  return "'" + value.name + "'" + shape;
}

}  // namespace

void Program::expect_pieces(const Placement& placement) const {
  const bool trains = std::any_of(graph_.nodes.begin(), graph_.nodes.end(),
                                  [](const Node& n) { return n.phase == Phase::kBackward; });
  for (const PlacedBuffer& b : placement.buffers) {
    if (b.bytes <= arena_.piece()) continue;
    throw plugins::host::Error(
        RT_ERROR_OUT_OF_MEMORY,
        "this batch does not fit " + device_->id() + ": " + operand_of(graph_, b) + " has " +
            std::to_string(b.bytes) + " bytes, and one buffer there has at most " +
            std::to_string(device_->largest_buffer()) + "; use a smaller " +
            (trains ? "training.micro_batch_size" : "training.global_batch_size") +
            ", split the layer (parallelism.tensor), or use a device with larger buffers");
  }
}

void Program::place() {
  const Placement placement =
      place_values(graph_, needs(), device_->properties().alignment, arena_.piece());
  expect_pieces(placement);
  slots_.resize(graph_.values.size());
  packed_versions_.assign(graph_.nodes.size(), nullptr);
  std::set<ValueId> used;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    for (ValueId v : node.inputs) used.insert(graph_.storage(v));
    for (ValueId v : node.outputs) used.insert(graph_.storage(v));
    if (node.phase == Phase::kPack)
      packed_versions_[i] = &storage_.packed_version(graph_.value(node.outputs[0]).name);
  }
  find_kept_packs();
  for (ValueId v : used) {
    const Value& value = graph_.value(v);
    if (!is_persistent(value.kind)) continue;
    slots_[v].persistent = true;
    storage_.buffer(value.name, value.bytes, value.cuts);
    memory_.buffers.push_back(
        {value.name, value.kind, value.bytes, 0, 0, static_cast<int>(graph_.nodes.size()) - 1});
    (value.kind == ValueKind::kParameter ? memory_.parameters
     : value.kind == ValueKind::kPacked  ? memory_.packed
                                         : memory_.gradients_and_state) += value.bytes;
  }
  for (size_t v = 0; v < slots_.size(); ++v) {
    if (placement.value_offsets[v] == Placement::kNowhere) continue;
    slots_[v].offset = placement.value_offsets[v];
    slots_[v].placed = true;
  }
  for (const PlacedBuffer& b : placement.buffers) {
    const ValueId first = b.values.empty() ? kNone : b.values.front();
    const std::string name =
        first == kNone ? graph_.nodes[b.first].layer + "." + graph_.nodes[b.first].op + " workspace"
                       : graph_.value(first).name;
    memory_.buffers.push_back({name,
                               first == kNone ? ValueKind::kTemporary : graph_.value(first).kind,
                               b.bytes, b.offset, b.first, b.last});
  }
  workspace_offsets_ = placement.workspace_offsets;
  memory_.arena = placement.arena_bytes;
  memory_.lower_bound = placement.lower_bound;
  arena_.reserve(placement.arena_bytes);
}

bool Program::uses(ValueId id) const {
  const Slot& slot = slots_[graph_.storage(id)];
  return slot.persistent || slot.placed;
}

void* Program::address(ValueId id) const {
  const Value& value = graph_.values[id];
  const uint64_t bytes = value.base == kNone ? value.bytes : graph::canonical_bytes(value);
  const auto [storage, offset] = graph_.place_of(id);
  const Slot& slot = slots_[storage];
  if (!slot.persistent) return slot.placed ? arena_.at(slot.offset + offset) : nullptr;
  const std::string& name = graph_.values[storage].name;
  std::byte* const address = storage_.find(name, offset);
  if (address != nullptr && bytes > storage_.contiguous(name, offset)) {
    throw InternalError("value '" + value.name + "' of '" + name + "', from byte " +
                        std::to_string(offset) + " on, does not lie in one buffer");
  }
  return address;
}

void Program::bind() {
  if (bound_ && bound_arena_ == arena_.version()) return;
  addresses_.assign(graph_.nodes.size(), {});
  launches_.resize(graph_.nodes.size());
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    LaunchAddresses& a = addresses_[i];
    for (ValueId v : node.inputs) a.inputs.push_back(address(v));
    for (ValueId v : node.outputs) a.outputs.push_back(address(v));
    if (node.collective) {
      if (collectives_ == nullptr) continue;
      rt_collective& collective = calls_[node.collective->token].collective;
      if (!a.inputs.empty()) collective.send = a.inputs[0];
      if (!a.outputs.empty()) collective.receive = a.outputs[0];
      continue;
    }
    if (node.on_fallback) continue;  // it has a launch of its own
    if (workspace_offsets_[i] != Placement::kNowhere)
      a.workspace = arena_.at(workspace_offsets_[i]);
    if (node.saved != kNone && graph_.value(node.saved).bytes > 0) a.saved = address(node.saved);
    launches_[i] = a.launch();
  }
  fallback_.bind();
  write_constants();
  bound_arena_ = arena_.version();
  bound_ = true;
  cut_segments();
}

void Program::write_constants() {
  for (size_t v = 0; v < slots_.size(); ++v) {
    const Value& value = graph_.values[v];
    if (value.kind != ValueKind::kConstant || !slots_[v].persistent) continue;
    storage_.write_once(value.name, [&] { return encode(value.contents->values(), value.dtype); });
  }
}

// Whether the node may be captured into a device graph. Collectives may not, because all ranks
// would have to replay them in the same step, and a rank may run another program than others in it,
// or may just have lost its recordings because its arena has moved; nor what the host or a fallback
// device computes; nor may the packing of weights, which is skipped if the weights have not
// changed.
bool Program::is_recordable(size_t node) const {
  return record_ && graph::has_kernel(graph_.nodes[node]) && !fallback_.runs(node) &&
         packed_versions_[node] == nullptr &&
         (kernels_[node].info().flags & RT_PLAN_CAPTURABLE) != 0;
}

void Program::cut_segments() {
  segments_.clear();  // also destroys recordings, which hold addresses
  warm_ = false;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const bool recordable = is_recordable(i);
    if (segments_.empty() || segments_.back().recordable != recordable)
      segments_.push_back({i, i, recordable, {}});
    segments_.back().end = i + 1;
  }
}

Recorded Program::recorded() const {
  Recorded result;
  for (const Segment& segment : segments_) {
    if (!segment.recording) continue;
    result.operations += segment.end - segment.begin;
    ++result.recordings;
  }
  return result;
}

bool Program::pack_is_stale(size_t node) {
  uint64_t* version = packed_versions_[node];
  if (*version == storage_.parameter_version()) return false;
  *version = storage_.parameter_version();
  return true;
}

// After the update a packed value is right if the update has written it, or if it is a copy of what
// the update has not changed. All others are made again before they are read.
void Program::find_kept_packs() {
  std::set<ValueId> written;
  for (const Node& node : graph_.nodes) {
    if (node.phase != Phase::kUpdate) continue;
    for (ValueId v : node.outputs) written.insert(graph_.storage(v));
  }
  std::set<ValueId> changed = written;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (packed_versions_[i] == nullptr) continue;
    const ValueId packed = graph_.storage(node.outputs[0]);
    if (written.contains(packed) || !changed.contains(graph_.storage(node.inputs[0]))) {
      kept_versions_.push_back(packed_versions_[i]);
    } else {
      changed.insert(packed);
    }
  }
}

bool Program::is_kept_right(size_t node) const {
  return std::ranges::count(kept_versions_, packed_versions_[node]) > 0;
}

void Program::finish_update() {
  if (!updates_parameters_) return;
  storage_.parameters_changed();
  for (uint64_t* version : kept_versions_) *version = storage_.parameter_version();
}

void Program::launch_collective(const Node& node, plugins::host::Stream& stream) {
  CollectiveCall& call = calls_[node.collective->token];
  node.collective->wait ? collectives_->wait(call, stream) : collectives_->start(call, stream);
}

// Returns false if there was nothing to do: the packed weights are still right.
bool Program::launch(size_t node, plugins::host::Stream& stream) {
  if (collectives_ != nullptr) {
    if (graph_.nodes[node].collective) {
      launch_collective(graph_.nodes[node], stream);
      return true;
    }
    collectives_->progress();
  }
  if (packed_versions_[node] != nullptr && !pack_is_stale(node)) return false;
  launch_kernel(node, stream);
  return true;
}

void Program::launch_kernel(size_t node, plugins::host::Stream& stream) {
  named(graph_.nodes[node], [&] {
    const LaunchAddresses& a = addresses_[node];
    if (const auto host = host_kernels_.find(node); host != host_kernels_.end())
      return host->second.launch(stream, a.inputs, a.outputs[0]);
    if (fallback_.runs(node))
      return fallback_.launch(node, kernels_[node], stream, a.inputs, a.outputs);
    kernels_[node].launch(stream, launches_[node]);
  });
}

void Program::check_collectives() const {
  for (const Node& node : graph_.nodes) {
    if (node.collective && collectives_ == nullptr) {
      throw CommunicationError("a step of several ranks was planned without communicators: '" +
                               node.op + "' cannot run; start the ranks (--nproc)");
    }
  }
}

// Records a segment. Returns false, and is never tried again, if the device cannot; the log says
// why.
bool Program::record(Segment& segment, plugins::host::Stream& stream) {
  try {
    segment.recording = plugins::host::Recording(stream, [&] {
      for (size_t i = segment.begin; i < segment.end; ++i)
        named(graph_.nodes[i], [&] { kernels_[i].launch(stream, launches_[i]); });
    });
  } catch (const plugins::host::Error& error) {
    segment.recordable = false;
    device_->plugin().log(RT_LOG_WARNING, std::string("operations are launched one by one: ") +
                                              error.what() +
                                              "; device.graph_capture = false does not try");
  }
  return segment.recordable;
}

void Program::run(Segment& segment, plugins::host::Stream& stream) {
  if (segment.recordable && warm_ && (segment.recording || record(segment, stream))) {
    if (collectives_ != nullptr) collectives_->progress();
    return segment.recording.replay(stream);
  }
  for (size_t i = segment.begin; i < segment.end; ++i) launch(i, stream);
}

void Program::run(plugins::host::Stream& stream, SpanRecorder* spans) {
  if (!bound_) check_collectives();
  bind();
  if (spans != nullptr) {
    run_all(stream, *spans);
  } else {
    for (Segment& segment : segments_) run(segment, stream);
  }
  warm_ = true;
  finish_update();
}

// A span begins where the one before it ends, so that the spans of a run add up to its time.
void Program::run_all(plugins::host::Stream& stream, SpanRecorder& spans) {
  Span span;
  span.kind = SpanKind::kOperation;
  span.program = this;
  SpanRecorder::Mark begin = spans.mark(stream);
  for (size_t i = 0; i < launches_.size(); ++i) {
    if (!launch(i, stream)) continue;
    const SpanRecorder::Mark end = spans.mark(stream);
    span.node = static_cast<int32_t>(i);
    spans.add(span, begin, end);
    begin = end;
  }
}

void Program::run_timed(plugins::host::Stream& stream, std::vector<double>& ns) {
  bind();
  ns.resize(launches_.size());
  for (size_t i = 0; i < launches_.size(); ++i) {
    if (graph_.nodes[i].collective && collectives_ == nullptr) {
      fill_received(i, stream);
      continue;
    }
    const auto begin = std::chrono::steady_clock::now();
    launch(i, stream);
    stream.synchronize();
    ns[i] +=
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
  }
  finish_update();
}

void Program::run_observed(plugins::host::Stream& stream,
                           const std::function<void(size_t node)>& observe) {
  if (!bound_) check_collectives();
  bind();
  for (size_t i = 0; i < launches_.size(); ++i) {
    launch(i, stream);
    stream.synchronize();
    observe(i);
  }
  finish_update();
}

void Program::run_collectives(plugins::host::Stream& stream, int communicator) {
  if (!bound_) check_collectives();
  bind();
  for (const Node& node : graph_.nodes) {
    if (node.collective && (communicator < 0 || node.collective->communicator == communicator))
      launch_collective(node, stream);
  }
  stream.synchronize();
}

}  // namespace runtime::exec
