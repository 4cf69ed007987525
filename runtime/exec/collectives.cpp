#include "runtime/exec/collectives.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/error.h"

namespace runtime::exec {

using graph::Graph;
using graph::Node;
using graph::Value;
using plugins::host::Device;
using plugins::host::Stream;

namespace {

constexpr size_t kItemBytes = 160;  // of one item of compare(), as it travels

// The first of them; nullptr if there is none.
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

// Adds the time for which it lives.
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

CollectiveRecord record_of(const rt_collective& c) {
  CollectiveRecord record;
  record.kind = c.kind;
  record.dtype = c.dtype;
  record.reduction = c.reduction;
  record.peer = c.peer;
  record.count = c.count;
  return record;
}

}  // namespace

std::string describe(const CollectiveCall& call) {
  std::string text = describe(record_of(call.collective));
  if (call.collective.reduction != 0)
    text += ", reduction " + std::to_string(call.collective.reduction);
  return call.name + ": " + text + ", communicator " + std::to_string(call.communicator);
}

Collectives::Collectives(std::vector<std::shared_ptr<plugins::host::Communicator>> communicators,
                         int rank, int world_size, FlightRecorder& recorder, Watchdog& watchdog,
                         bool check, std::shared_ptr<plugins::host::Communicator> job)
    : communicators_(std::move(communicators)),
      job_(job ? std::move(job) : communicators_.at(0)),
      rank_(rank),
      world_size_(world_size),
      recorder_(recorder),
      watchdog_(watchdog),
      check_(check) {}

Collectives::~Collectives() = default;

// Turns what a communicator reports into the cause that the ranks find out together.
template <class Function>
void Collectives::guarded(Function&& function) {
  try {
    function();
  } catch (const plugins::host::Error& error) {
    watchdog_.fail(error.what());
  }
}

CollectiveCall Collectives::prepare(const Graph& graph, const Node& node,
                                    const std::shared_ptr<Device>& device) const {
  const Value* const sent = operand(graph, node.inputs);
  const Value* const received = operand(graph, node.outputs);
  CollectiveCall call;
  call.name = node.layer;
  call.communicator = node.collective->communicator;
  call.collective = plugins::host::make_collective(
      node.collective->kind, (sent ? sent : received)->dtype, nullptr, nullptr,
      count_of(graph, node, world_size_), node.collective->reduction);
  call.collective.peer = node.collective->peer;
  if (sent) call.send_bytes = graph::canonical_bytes(*sent);
  if (received) call.receive_bytes = graph::canonical_bytes(*received);
  if (!device->is_inline()) {
    call.computed.emplace(device);
    call.copied.emplace(device);
  }
  if (staged(*device)) {
    if (sent) call.send_copy = device->allocate(call.send_bytes, RT_MEMORY_PINNED_HOST);
    if (received) call.receive_copy = device->allocate(call.receive_bytes, RT_MEMORY_PINNED_HOST);
  }
  return call;
}

void Collectives::start(CollectiveCall& call, Stream& stream) {
  if (!call.computed) return enqueue(call);
  call.computed->record(stream);
  if (!copies_) copies_.emplace(stream.device());
  call.computed->wait(*copies_);
  if (call.send_copy) copies_->copy(call.send_copy.data(), call.collective.send, call.send_bytes);
  call.copied->record(*copies_);
  call.queued = true;
  queue_.push_back(&call);
  progress();
}

void Collectives::progress() {
  while (!queue_.empty() && queue_.front()->copied->query()) {
    CollectiveCall& call = *queue_.front();
    queue_.pop_front();
    call.queued = false;
    enqueue(call);
  }
}

void Collectives::enqueue(CollectiveCall& call) {
  const Timer timer(times_.exposed_ns.at(call.communicator));
  rt_collective collective = call.collective;
  if (call.send_copy) collective.send = call.send_copy.data();
  if (call.receive_copy) collective.receive = call.receive_copy.data();
  if (check_) check_call(call);
  call.sequence = recorder_.begin(collective, static_cast<uint64_t>(call.communicator));
  guarded([&] { call.work = communicators_[call.communicator]->enqueue(collective); });
  recorder_.running(call.sequence);
  times_.bytes += call.send_bytes;
  ++times_.calls;
}

void Collectives::wait(CollectiveCall& call, Stream& stream) {
  while (call.queued) {
    queue_.front()->copied->synchronize();
    progress();
  }
  // What the device still computed is not communication.
  const Timer timer(times_.exposed_ns.at(call.communicator));
  wait_for(call.work, call.sequence);
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
      work.wait(Watchdog::kSlice);
      done = true;
    } catch (const plugins::host::Error& error) {
      if (error.code() != RT_ERROR_TIMEOUT) watchdog_.fail(error.what());
      watchdog_.check();
    }
  }
  recorder_.end(sequence);
}

CollectiveTimes Collectives::take_times() { return std::exchange(times_, {}); }

void Collectives::run(const rt_collective& collective, int communicator) {
  const uint64_t sequence =
      recorder_.begin(collective, static_cast<uint64_t>(std::max(communicator, 0)));
  plugins::host::Work work;
  guarded([&] {
    const auto& among = communicator == kJob ? job_ : communicators_.at(communicator);
    work = among->enqueue(collective);
  });
  wait_for(work, sequence);
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
      disagreement = "the ranks disagree on " + item + ": rank " + std::to_string(ranks[0]) +
                     " has \"" + texts[0] + "\", rank " + std::to_string(ranks[i]) + " has \"" +
                     texts[i] + "\"; start all ranks with the same configuration, data and program";
    }
  };
  std::string joined;
  for (const std::string& item : items) joined += item + '\n';
  const std::vector<std::string> hashes =
      gather(std::to_string(items.size()) + "/" + std::to_string(std::hash<std::string>()(joined)));
  // Ranks of other groups go on together with these, until every group is done.
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
