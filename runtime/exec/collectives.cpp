// Starts and awaits the collectives of nodes: on a stream, from the host, or staged in pinned
// memory.
#include "runtime/exec/collectives.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <utility>

#include "plugins/host/drain.h"
#include "runtime/error.h"
#include "runtime/exec/communicator_errors.h"
#include "runtime/watch/call_plan.h"

namespace runtime::exec {

using graph::Graph;
using graph::Node;
using graph::Value;
using plugins::host::Device;
using plugins::host::Stream;

namespace {

constexpr size_t kItemBytes = 160;  // bytes of one item that compare() exchanges
// The largest number of collectives on streams that may be enqueued and not completed. The flight
// recorder has room for twice as many.
constexpr size_t kMostFlying = watch::FlightRecorder::kSlots / 2;

// The first operand, or nullptr if there is none.
const Value* operand(const Graph& graph, const std::vector<graph::ValueId>& values) {
  return values.empty() ? nullptr : &graph.value(values[0]);
}

uint64_t count_of(const Graph& graph, const Node& node, int world_size) {
  const auto elements = [](const Value* v) {
    return v == nullptr ? UINT64_MAX : static_cast<uint64_t>(graph::element_count(v->dims));
  };
  const uint64_t sent = elements(operand(graph, node.inputs)),
                 received = elements(operand(graph, node.outputs));
  return node.collective->kind == RT_ALL_TO_ALL ? sent / world_size : std::min(sent, received);
}

// Returns what is known of a call before it starts.
watch::CollectiveRecord record_of(const Graph& graph, const Node& node, int world_size) {
  const graph::Collective& c = *node.collective;
  const Value* const sent = operand(graph, node.inputs);
  watch::CollectiveRecord record{.kind = c.kind, .reduction = c.reduction, .peer = c.peer};
  record.dtype = (sent != nullptr ? sent : operand(graph, node.outputs))->dtype;
  record.count = count_of(graph, node, world_size);
  record.communicator = static_cast<uint64_t>(c.communicator);
  record.micro_batch = c.micro_batch;
  record.set_label(node.layer);
  return record;
}

void copy_sent(CollectiveCall& call, Stream& stream) {
  if (call.send_copy) stream.copy(call.send_copy.data(), call.collective.send, call.send_bytes);
}

// Adds the time for which the object lives to a sum.
class Timer {
 public:
  explicit Timer(double& sum_ns) : sum_ns_(sum_ns) {}
  ~Timer() {
    sum_ns_ +=
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin_).count();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& sum_ns_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

std::string describe(const CollectiveCall& call) {
  const rt_collective& c = call.collective;
  watch::CollectiveRecord record{.kind = c.kind, .dtype = c.dtype, .reduction = c.reduction};
  record.peer = c.peer;
  record.count = c.count;
  record.communicator = static_cast<uint64_t>(call.communicator);
  record.set_label(call.name);
  return watch::text_of(record);
}

watch::Plan plan_of(const std::vector<const Graph*>& graphs, int world_size) {
  watch::Plan plan;
  int64_t calls = 0;
  for (const Graph* graph : graphs) {
    std::map<int32_t, int64_t> positions;  // by token
    for (const Node& node : graph->nodes) {
      if (!node.collective) continue;
      watch::PlanItem item{.waits = node.collective->wait};
      if (!item.waits) {
        item.call = record_of(*graph, node, world_size);
        positions[node.collective->token] = ++calls;
      }
      item.call.position = positions.at(node.collective->token);
      plan.push_back(item);
    }
  }
  return plan;
}

Collectives::Collectives(std::vector<std::shared_ptr<plugins::host::Communicator>> communicators,
                         int rank, int world_size, watch::FlightRecorder& recorder,
                         watch::Watchdog& watchdog, bool check,
                         std::shared_ptr<plugins::host::Communicator> job)
    : communicators_(std::move(communicators)),
      job_(job ? std::move(job) : communicators_.at(0)),
      rank_(rank),
      world_size_(world_size),
      recorder_(recorder),
      watchdog_(watchdog),
      check_(check),
      access_(*job_) {
  times_.exposed_ns.resize(communicators_.size());
  if (access_.has_choice() && !probe()) access_.distrust();
  if (!access_.on_stream()) return;
  watchdog_.attend([this] {
    // If the rank's thread has the lock, it is in a call, which reports completed collectives too.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) look();
  });
}

Collectives::~Collectives() {
  if (!access_.on_stream()) return;
  watchdog_.attend({});
  try {
    if (std::uncaught_exceptions() > 0) throw CommunicationError("it ends with an error");
    while (!flying_.empty()) take_oldest();
  } catch (const std::exception&) {
    // The streams that are destroyed below would wait for collectives that hang on them.
    for (const auto& communicator : communicators_) {
      if (communicator != nullptr) abort(*communicator);
    }
    abort(*job_);
  }
}

CollectiveCall Collectives::prepare(const Graph& graph, const Node& node,
                                    const std::shared_ptr<Device>& device) {
  const Value* const sent = operand(graph, node.inputs);
  const Value* const received = operand(graph, node.outputs);
  const watch::CollectiveRecord known = record_of(graph, node, world_size_);
  CollectiveCall call;
  call.name = node.layer;
  call.micro_batch = node.collective->micro_batch;
  call.communicator = node.collective->communicator;
  call.collective = plugins::host::make_collective(known.kind, known.dtype, nullptr, nullptr,
                                                   known.count, known.reduction);
  call.collective.peer = known.peer;
  if (sent) call.send_bytes = graph::canonical_bytes(*sent);
  if (received) call.receive_bytes = graph::canonical_bytes(*received);
  if (!device->is_inline()) {
    call.computed.emplace(device);
    call.copied.emplace(device);
  }
  call.access = access_.of(call.collective, *device);
  if (call.access == Access::kDevice || call.access == Access::kStream)
    call.collective.memory_kind = RT_MEMORY_DEVICE;
  if (call.access == Access::kStream) {
    call.stream = &stream_of(call, device);
    call.collective.stream = call.stream->get();
    call.arrived.emplace(device);
    call.left.emplace(device);
  }
  call.in_place = call.access == Access::kStaged || access_.works_in_place(call.collective);
  if (!call.in_place && sent && received &&
      graph.storage(node.inputs[0]) == graph.storage(node.outputs[0]))
    call.send_copy = device->allocate(call.send_bytes, call.collective.memory_kind);
  if (call.access == Access::kStaged) {
    if (sent) call.send_copy = device->allocate(call.send_bytes, RT_MEMORY_PINNED_HOST);
    if (received) call.receive_copy = device->allocate(call.receive_bytes, RT_MEMORY_PINNED_HOST);
  }
  return call;
}

Stream& Collectives::stream_of(const CollectiveCall& call, const std::shared_ptr<Device>& device) {
  const rt_collective& c = call.collective;
  const bool transfer = c.kind == RT_SEND || c.kind == RT_RECEIVE;
  return streams_
      .try_emplace({call.communicator, transfer ? c.kind : 0, transfer ? c.peer : 0}, device)
      .first->second;
}

void Collectives::start(CollectiveCall& call, Stream& stream) {
  const std::lock_guard lock(mutex_);
  call.place = recorder_.next_planned();
  if (!call.computed) {
    copy_sent(call, stream);
    return enqueue(call);
  }
  call.computed->record(stream);
  if (call.stream != nullptr) return start_on_stream(call);
  if (!copies_) copies_.emplace(stream.device());
  call.computed->wait(*copies_);
  copy_sent(call, *copies_);
  call.copied->record(*copies_);
  call.queued = true;
  queue_.push_back(&call);
  progress();
}

void Collectives::start_on_stream(CollectiveCall& call) {
  watchdog_.check();
  guarded(watchdog_, [&] { look(); });
  if (flying_.size() == kMostFlying) take_oldest();
  call.computed->wait(*call.stream);
  const SpanRecorder::Mark begin = spans_ == nullptr ? 0 : spans_->mark(*call.stream);
  copy_sent(call, *call.stream);
  enqueue(call);
  if (spans_ != nullptr) {
    Span span;
    span.kind = SpanKind::kCollective;
    span.call = &call;
    // It ends before whoever waits for `copied` goes on.
    spans_->add(span, begin, spans_->mark(*call.stream));
  }
  call.copied->record(*call.stream);
  flying_.push_back({std::exchange(call.work, {}), call.sequence});
}

// The device waits, not the host. The time that it waited is read when the same call comes again.
void Collectives::wait_on_stream(CollectiveCall& call, Stream& stream) {
  watchdog_.check();
  guarded(watchdog_, [&] { look(); });
  if (call.waited && call.left->query()) {
    const auto ns = plugins::host::Event::elapsed(*call.arrived, *call.left);
    times_.exposed_ns.at(call.communicator) += static_cast<double>(ns.count());
  }
  call.arrived->record(stream);
  call.copied->wait(stream);
  call.left->record(stream);
  call.waited = true;
}

void Collectives::take_oldest() {
  Flying oldest = std::move(flying_.front());
  flying_.pop_front();
  wait_for(oldest.work, oldest.sequence);
}

// Reports completed calls to the recorder. The caller holds the mutex.
void Collectives::look() {
  while (!flying_.empty() && flying_.front().work.poll()) {
    recorder_.end(flying_.front().sequence);
    flying_.pop_front();
  }
}

void Collectives::record(SpanRecorder* spans) {
  const std::lock_guard lock(mutex_);
  spans_ = spans;
  recorded_.clear();
  if (spans == nullptr) return;
  ends_early_ =
      (plugins::host::communicator_properties(job_->plugin()).flags & RT_COMM_BACKGROUND) != 0;
}

void Collectives::notice_ends() {
  std::erase_if(recorded_, [this](CollectiveCall* call) {
    const bool ended = guarded(watchdog_, [&] { return call->work.poll(); });
    if (ended) spans_->add_collective(call, call->started_ns, SpanRecorder::now());
    return ended;
  });
}

void Collectives::progress() {
  if (queue_.empty() && recorded_.empty()) return;
  const std::lock_guard lock(mutex_);
  if (ends_early_) notice_ends();
  while (!queue_.empty() && queue_.front()->copied->query()) {
    CollectiveCall& call = *queue_.front();
    queue_.pop_front();
    call.queued = false;
    enqueue(call);
  }
}

void Collectives::release(const std::vector<CollectiveCall>& calls) noexcept {
  const std::lock_guard lock(mutex_);
  const auto is_released = [&](const CollectiveCall* call) {
    return std::any_of(calls.begin(), calls.end(), [&](const auto& c) { return &c == call; });
  };
  std::erase_if(queue_, is_released);
  std::erase_if(recorded_, is_released);
  if (copies_) const plugins::host::Drain copied(*copies_);
  for (auto& [key, stream] : streams_) const plugins::host::Drain ended(stream);
}

void Collectives::enqueue(CollectiveCall& call) {
  // With a stream, the device does not wait while the host enqueues, so that time is not exposed.
  double unseen = 0;
  const Timer timer(call.stream == nullptr ? times_.exposed_ns.at(call.communicator) : unseen);
  rt_collective collective = call.collective;
  if (call.send_copy) collective.send = call.send_copy.data();
  if (call.receive_copy) collective.receive = call.receive_copy.data();
  if (check_) check_call(call);
  call.sequence =
      recorder_.begin(collective, number_of(call.communicator),
                      {.label = call.name, .micro_batch = call.micro_batch, .place = call.place});
  if (spans_ != nullptr && call.stream == nullptr) {
    call.started_ns = SpanRecorder::now();
    recorded_.push_back(&call);
  }
  call.work =
      guarded(watchdog_, [&] { return communicators_[call.communicator]->enqueue(collective); });
  // running() is not called for a call on a stream, so the recorder goes on counting the rank as
  // waiting and the watchdog's deadline applies: the stream does wait for the other ranks.
  if (call.stream == nullptr) recorder_.running(call.sequence);
  times_.bytes += call.send_bytes;
  ++times_.calls;
}

void Collectives::wait(CollectiveCall& call, Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (call.stream != nullptr) return wait_on_stream(call, stream);
  while (call.queued) {
    queue_.front()->copied->synchronize();
    progress();
  }
  // The time for which the device still computed is not communication, so the timer starts here.
  const Timer timer(times_.exposed_ns.at(call.communicator));
  // Until now it has made no progress.
  if (!recorded_.empty() && !ends_early_) call.started_ns = SpanRecorder::now();
  wait_for(call.work, call.sequence);
  if (std::erase(recorded_, &call) > 0)
    spans_->add_collective(&call, call.started_ns, SpanRecorder::now());
  call.work = {};
  if (call.receive_copy) {
    copies_->copy(call.collective.receive, call.receive_copy.data(), call.receive_bytes);
    call.copied->record(*copies_);
    call.copied->wait(stream);
  }
}

void Collectives::wait_for(plugins::host::Work& work, uint64_t sequence) {
  recorder_.waiting(sequence);
  for (bool done = false; !done;) {
    try {
      work.wait(watch::Watchdog::kSlice);
      done = true;
      watchdog_.suspect(-1);
    } catch (const plugins::host::Error& error) {
      if (error.code() != RT_ERROR_TIMEOUT) watchdog_.fail(error);
      watchdog_.suspect(error.rank());
      watchdog_.check();
      guarded(watchdog_, [&] { look(); });
    }
  }
  recorder_.end(sequence);
}

// Tests whether the communicator's plugin can read device memory, as it claims: all ranks make an
// all-reduce and check its sum. A rank whose device the claim does not cover takes part with host
// memory.
bool Collectives::probe() {
  const auto own = static_cast<float>(rank_ + 1);
  float sum = own;
  if (access_.claims_device()) {
    const std::shared_ptr<Device>& device = job_->device();
    const plugins::host::Memory memory = device->allocate(2 * sizeof(sum));
    auto* const numbers = static_cast<float*>(memory.data());
    Stream stream(device);
    stream.copy(numbers, &own, sizeof(own));
    stream.synchronize();
    rt_collective call =
        plugins::host::make_collective(RT_ALL_REDUCE, RT_FLOAT32, numbers, numbers + 1, 1, RT_SUM);
    call.memory_kind = RT_MEMORY_DEVICE;
    run_here(call, kJob);
    stream.copy(&sum, numbers + 1, sizeof(sum));
    stream.synchronize();
  } else {
    run_here(plugins::host::make_collective(RT_ALL_REDUCE, RT_FLOAT32, &sum, &sum, 1, RT_SUM),
             kJob);
  }
  const int expected = world_size_ * (world_size_ + 1) / 2;
  double agrees = sum == static_cast<float>(expected) ? 1 : 0;
  all_reduce(&agrees, 1, RT_MIN);
  return agrees == 1;
}

CollectiveTimes Collectives::take_times() {
  return std::exchange(times_, {std::vector<double>(communicators_.size())});
}

void Collectives::run(const rt_collective& collective, int communicator) {
  const std::lock_guard lock(mutex_);
  access_.reads_host() || collective.memory_kind == RT_MEMORY_DEVICE
      ? run_here(collective, communicator)
      : run_on_device(collective, communicator);
}

// Finds the size by an all-reduce in which each rank adds 1, because the interface has no function
// for the size of a communicator that was split.
uint64_t Collectives::size_of(int communicator) {
  if (communicator == kJob || communicators_.at(communicator) == job_) return world_size_;
  const auto [size, is_new] = sizes_.try_emplace(communicator, 0);
  if (is_new) {
    double ranks = 1;
    all_reduce(&ranks, 1, RT_SUM, communicator);
    size->second = static_cast<uint64_t>(ranks);
  }
  return size->second;
}

void Collectives::run_on_device(rt_collective c, int communicator) {
  const uint64_t bytes = c.count * graph::dtype_bytes(c.dtype);
  const bool gathers = c.kind == RT_ALL_GATHER || c.kind == RT_ALL_TO_ALL;
  const bool scatters = c.kind == RT_REDUCE_SCATTER || c.kind == RT_ALL_TO_ALL;
  const uint64_t ranks = gathers || scatters ? size_of(communicator) : 1;
  const uint64_t sent = c.send == nullptr ? 0 : scatters ? ranks * bytes : bytes;
  const uint64_t received = c.receive == nullptr ? 0 : gathers ? ranks * bytes : bytes;
  const std::shared_ptr<Device>& device = job_->device();
  const uint64_t alignment = std::max<uint64_t>(device->properties().alignment, 1);
  const uint64_t offset = (sent + alignment - 1) / alignment * alignment;
  if (offset + received > scratch_.bytes()) scratch_ = device->allocate(offset + received);
  if (!copies_) copies_.emplace(device);
  std::byte* const arrives = static_cast<std::byte*>(scratch_.data()) + offset;
  void* const result = std::exchange(c.receive, arrives);
  if (sent > 0) copies_->copy(scratch_.data(), c.send, sent);
  c.send = scratch_.data();
  c.memory_kind = RT_MEMORY_DEVICE;
  if (access_.on_stream())
    c.stream = copies_->get();
  else
    copies_->synchronize();
  run_here(c, communicator);
  if (received > 0) copies_->copy(result, arrives, received);
  copies_->synchronize();
}

// Calls in place are on host memory; what they send is copied if the plugin does not work in place.
void Collectives::run_here(rt_collective collective, int communicator) {
  std::vector<std::byte> copy;
  if (collective.send != nullptr && collective.send == collective.receive &&
      !access_.works_in_place(collective)) {
    const auto* const sent = static_cast<const std::byte*>(collective.send);
    copy.assign(sent, sent + collective.count * graph::dtype_bytes(collective.dtype));
    collective.send = copy.data();
  }
  const uint64_t sequence = recorder_.begin(collective, number_of(communicator));
  const auto& among = communicator == kJob ? job_ : communicators_.at(communicator);
  plugins::host::Work work = guarded(watchdog_, [&] { return among->enqueue(collective); });
  wait_for(work, sequence);
}

uint64_t Collectives::number_of(int communicator) const {
  if (communicator != kJob) return static_cast<uint64_t>(communicator);
  return job_ == communicators_.at(0) ? 0 : communicators_.size();
}

void Collectives::all_gather(const void* send, void* receive, uint64_t bytes, int communicator) {
  run(plugins::host::make_collective(RT_ALL_GATHER, RT_UINT8, send, receive, bytes), communicator);
}

void Collectives::all_reduce(double* values, uint64_t count, int32_t reduction, int communicator) {
  run(plugins::host::make_collective(RT_ALL_REDUCE, RT_FLOAT64, values, values, count, reduction),
      communicator);
}

void Collectives::broadcast(void* data, uint64_t bytes, int root, int communicator) {
  rt_collective c = plugins::host::make_collective(RT_BROADCAST, RT_UINT8, data, data, bytes);
  c.peer = root;
  run(c, communicator);
}

void Collectives::check_call(const CollectiveCall& call) {
  compare("call " + std::to_string(++checked_), {describe(call)});
}

void Collectives::compare(const std::string& what, const std::vector<std::string>& items,
                          const std::vector<int>& among) {
  std::vector<int> ranks = among;
  for (int r = 0; among.empty() && r < world_size_; ++r) ranks.push_back(r);
  const auto gather = [&](const std::string& mine) {
    std::vector<char> all(kItemBytes * world_size_, '\0'), own(kItemBytes, '\0');
    std::copy_n(mine.begin(), std::min(mine.size(), kItemBytes - 1), own.begin());
    all_gather(own.data(), all.data(), kItemBytes);
    std::vector<std::string> texts;
    for (int r : ranks) texts.emplace_back(all.data() + r * kItemBytes);
    return texts;
  };
  std::string disagreement;
  const auto find_difference = [&](const std::vector<std::string>& texts, const std::string& item) {
    for (size_t i = 1; i < ranks.size() && disagreement.empty(); ++i) {
      if (texts[i] == texts[0]) continue;
      disagreement = "the ranks disagree on " + item + ": " +
                     watchdog_.options().names.of(ranks[0]) + " has \"" + texts[0] + "\", " +
                     watchdog_.options().names.of(ranks[i]) + " has \"" + texts[i] +
                     "\"; start all ranks with the same configuration, data and program";
    }
  };
  std::string joined;
  for (const std::string& item : items) joined += item + '\n';
  const std::vector<std::string> hashes =
      gather(std::to_string(items.size()) + "/" + std::to_string(std::hash<std::string>()(joined)));
  // Ranks of other groups take part in the same collectives until every group is done.
  const bool equal =
      std::all_of(hashes.begin(), hashes.end(), [&](auto& h) { return h == hashes[0]; });
  double longest = equal ? 0 : static_cast<double>(items.size());
  all_reduce(&longest, 1, RT_MAX);
  for (size_t i = 0; i < static_cast<size_t>(longest); ++i) {
    find_difference(gather(i < items.size() ? items[i] : "nothing"),
                    what + " " + std::to_string(i + 1));
  }
  if (disagreement.empty()) find_difference(hashes, what);
  if (!disagreement.empty()) throw CommunicationError(disagreement);
}

}  // namespace runtime::exec
