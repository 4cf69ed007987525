// `runtime bench comm`: time and bandwidth of each collective and size, as nccl-tests prints them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/analysis/scaling.h"
#include "runtime/error.h"
#include "runtime/launch/job.h"
#include "runtime/model/layer_types.h"
#include "runtime/terminal/status_line.h"
#include "runtime/terminal/table.h"
#include "tools/bench/bench.h"

namespace runtime::bench {

namespace {

using Clock = std::chrono::steady_clock;

struct CollectiveKind {
  const char* name;
  int32_t kind;
};
constexpr CollectiveKind kKinds[] = {
    {"all_reduce", RT_ALL_REDUCE}, {"reduce_scatter", RT_REDUCE_SCATTER},
    {"all_gather", RT_ALL_GATHER}, {"broadcast", RT_BROADCAST},
    {"reduce", RT_REDUCE},         {"all_to_all", RT_ALL_TO_ALL}};

// [model] and [dataset] are required, but they are not used here.
constexpr const char* kNoJob = R"(
model.input = [1]
model.layers = [{ type = "linear", features = 1 }]
dataset.name = "synthetic"
dataset.samples = 1
dataset.classes = 1
training.global_batch_size = 4096
)";

constexpr uint64_t kSizeFactor = 4;      // factor between two sizes
constexpr double kSeconds = 0.2;         // duration of the measured calls of a row, ...
constexpr int kFewest = 5, kMost = 500;  // ... whose number is within these limits
constexpr int kRoot = 0;

struct CallRow {
  const char* name = "";
  uint64_t bytes = 0;  // of the larger buffer, as nccl-tests counts
  uint64_t count = 0;  // elements, as rt/communicator.h counts
  double seconds = 0;  // median of the calls, on the slowest rank
  double wrong = 0;    // wrong elements on all ranks

  double algorithm_bandwidth() const { return static_cast<double>(bytes) / seconds / 1e9; }
};

// Small integers, so that sums are exact.
float sent(int rank, uint64_t i) { return static_cast<float>((rank * 31 + i) % 17); }

// One collective of one size on this rank. Its buffers are in host memory, or in device memory if
// the communicator reads nothing else.
class CallCase {
 public:
  CallCase(const launch::Rank& rank, const CollectiveKind& kind, uint64_t bytes)
      : collectives_(*rank.collectives), ranks_(collectives_.world_size()), kind_(kind) {
    const bool parts =
        kind.kind == RT_REDUCE_SCATTER || kind.kind == RT_ALL_GATHER || kind.kind == RT_ALL_TO_ALL;
    count_ = std::max<uint64_t>(1, bytes / sizeof(float) / (parts ? ranks_ : 1));
    const uint64_t all = count_ * ranks_;
    send_.resize(kind.kind == RT_REDUCE_SCATTER || kind.kind == RT_ALL_TO_ALL ? all : count_);
    receive_.resize(kind.kind == RT_ALL_GATHER || kind.kind == RT_ALL_TO_ALL ? all : count_);
    for (uint64_t i = 0; i < send_.size(); ++i) send_[i] = sent(collectives_.rank(), i);
    call_ = plugins::host::make_collective(kind.kind, RT_FLOAT32, send_.data(), receive_.data(),
                                           count_, reduces() ? RT_SUM : 0);
    if (kind.kind == RT_BROADCAST || kind.kind == RT_REDUCE) call_.peer = kRoot;
    if (!collectives_.access().reads_host()) move_to(rank.device);
  }

  CallRow measure() {
    CallRow row;
    row.name = kind_.name;
    row.count = count_;
    row.bytes = std::max(send_.size(), receive_.size()) * sizeof(float);
    collectives_.run(call_);
    row.wrong = static_cast<double>(wrong());
    collectives_.all_reduce(&row.wrong, 1, RT_SUM);
    double slowest = call();
    collectives_.all_reduce(&slowest, 1, RT_MAX);
    std::vector<double> times(
        static_cast<size_t>(std::clamp(kSeconds / slowest, double{kFewest}, double{kMost})));
    for (double& t : times) t = call();
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    row.seconds = times[times.size() / 2];
    collectives_.all_reduce(&row.seconds, 1, RT_MAX);
    return row;
  }

 private:
  void move_to(const std::shared_ptr<plugins::host::Device>& device) {
    stream_.emplace(device);
    device_send_ = device->allocate(send_.size() * sizeof(float));
    device_receive_ = device->allocate(receive_.size() * sizeof(float));
    stream_->copy(device_send_.data(), send_.data(), device_send_.bytes());
    stream_->synchronize();
    call_.send = device_send_.data();
    call_.receive = device_receive_.data();
    call_.memory_kind = RT_MEMORY_DEVICE;
    call_.stream = stream_->get();
  }

  bool reduces() const {
    return kind_.kind == RT_ALL_REDUCE || kind_.kind == RT_REDUCE_SCATTER ||
           kind_.kind == RT_REDUCE;
  }

  double call() {
    const auto begin = Clock::now();
    collectives_.run(call_);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  float expected(uint64_t i) const {
    const uint64_t mine = static_cast<uint64_t>(collectives_.rank()) * count_;
    if (kind_.kind == RT_BROADCAST) return sent(kRoot, i);
    if (kind_.kind == RT_ALL_GATHER) return sent(static_cast<int>(i / count_), i % count_);
    if (kind_.kind == RT_ALL_TO_ALL) return sent(static_cast<int>(i / count_), mine + i % count_);
    float sum = 0;
    for (int r = 0; r < ranks_; ++r) sum += sent(r, kind_.kind == RT_REDUCE_SCATTER ? mine + i : i);
    return sum;
  }

  uint64_t wrong() {
    if (stream_) {
      stream_->copy(receive_.data(), device_receive_.data(), device_receive_.bytes());
      stream_->synchronize();
    }
    if (kind_.kind == RT_REDUCE && collectives_.rank() != kRoot) return 0;
    uint64_t count = 0;
    for (uint64_t i = 0; i < receive_.size(); ++i) count += receive_[i] != expected(i) ? 1 : 0;
    return count;
  }

  exec::Collectives& collectives_;
  const int ranks_;
  const CollectiveKind& kind_;
  uint64_t count_ = 0;
  std::vector<float> send_, receive_;
  rt_collective call_{};
  plugins::host::Memory device_send_, device_receive_;
  std::optional<plugins::host::Stream> stream_;  // last: destroyed first, which waits for its work
};

double bus_bandwidth(const CallRow& row, int ranks) {
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const CollectiveKind& k) { return k.name == row.name; });
  return row.algorithm_bandwidth() * parallel::bus_factor(kind->kind, ranks);
}

// What `plan` needs to know about the network: the latency of a message, from the fastest
// all-reduce, and the best bandwidth.
struct Fit {
  double latency_us = 0, bandwidth_gbps = 0;
};

Fit fit(const std::vector<CallRow>& rows, int ranks) {
  Fit f;
  for (const CallRow& row : rows) {
    if (std::string_view(row.name) != "all_reduce") continue;
    const double latency = row.seconds * 1e6 / (2.0 * (ranks - 1));
    f.latency_us = f.latency_us == 0 ? latency : std::min(f.latency_us, latency);
    f.bandwidth_gbps = std::max(f.bandwidth_gbps, 8 * bus_bandwidth(row, ranks));
  }
  return f;
}

void print_table(const std::vector<CallRow>& rows, const launch::Rank& rank) {
  const int ranks = rank.place.world_size;
  fmt::print("{} ranks over {}; bandwidths in GB/s (1e9 bytes)\n\n", ranks, rank.backend);
  using Kind = terminal::Column::Kind;
  terminal::Table table({{"collective"},
                         {"bytes", Kind::kNumber},
                         {"count", Kind::kNumber, 2},
                         {"type", Kind::kText, 1},
                         {"time (us)", Kind::kNumber},
                         {"algbw", Kind::kNumber},
                         {"busbw", Kind::kNumber},
                         {"#wrong", Kind::kNumber}});
  for (const CallRow& row : rows) {
    table.add({row.name, std::to_string(row.bytes), std::to_string(row.count), "float32",
               fmt::format("{:.1f}", row.seconds * 1e6),
               fmt::format("{:.3f}", row.algorithm_bandwidth()),
               fmt::format("{:.3f}", bus_bandwidth(row, ranks)), fmt::format("{:.0f}", row.wrong)});
  }
  table.print();
  const Fit f = fit(rows, ranks);
  if (f.latency_us > 0) {
    fmt::print(
        "\nnext: runtime plan CONFIG --world-size {} --set cluster.link_latency_us={:.1f} --set "
        "cluster.link_gbps={:.3g}\n",
        ranks, f.latency_us, f.bandwidth_gbps);
  }
}

void print_json(const std::vector<CallRow>& rows, const launch::Rank& rank) {
  const int ranks = rank.place.world_size;
  nlohmann::ordered_json j;
  j["world_size"] = ranks;
  j["backend"] = rank.backend;
  j["results"] = nlohmann::ordered_json::array();
  for (const CallRow& row : rows) {
    j["results"].push_back({{"collective", row.name},
                            {"bytes", row.bytes},
                            {"count", row.count},
                            {"type", "float32"},
                            {"time_us", row.seconds * 1e6},
                            {"algorithm_bandwidth_gb_s", row.algorithm_bandwidth()},
                            {"bus_bandwidth_gb_s", bus_bandwidth(row, ranks)},
                            {"wrong", static_cast<uint64_t>(row.wrong)}});
  }
  const Fit f = fit(rows, ranks);
  j["latency_us"] = f.latency_us;
  j["bandwidth_gbps"] = f.bandwidth_gbps;
  std::cout << j.dump() << std::endl;
}

void bench_rank(const launch::Rank& rank, const CommArguments& arguments) {
  if (rank.collectives == nullptr)
    throw ConfigurationError("bench comm: one rank has nobody to talk to; use --nproc 2 or more");
  std::vector<CallRow> rows;
  double wrong = 0;
  std::optional<terminal::StatusLine> status;
  if (rank.main()) status.emplace();
  for (const CollectiveKind& kind : kKinds) {
    const auto& wanted = arguments.collectives;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), kind.name) == wanted.end())
      continue;
    if (status) status->begin(std::string("measuring ") + kind.name);
    for (uint64_t bytes = arguments.min_bytes; bytes <= arguments.max_bytes; bytes *= kSizeFactor) {
      rows.push_back(CallCase(rank, kind, bytes).measure());
      wrong += rows.back().wrong;
    }
  }
  status.reset();
  if (rank.main()) arguments.json ? print_json(rows, rank) : print_table(rows, rank);
  if (wrong > 0) {
    throw CommunicationError(
        fmt::format("bench comm: {:.0f} elements arrived wrong over {}; "
                    "choose another comm.backend and report this",
                    wrong, rank.backend));
  }
}

}  // namespace

std::vector<std::string> comm_collectives() {
  std::vector<std::string> names;
  for (const CollectiveKind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

void run_bench_comm(const CommArguments& arguments, Outcome& outcome) {
  if (arguments.min_bytes > arguments.max_bytes) {
    throw ConfigurationError(
        fmt::format("bench comm: --min-bytes {} is above --max-bytes {}; give a range",
                    arguments.min_bytes, arguments.max_bytes));
  }
  config::Config config = arguments.config.path.empty()
                              ? config::load_text(kNoJob, "comm", arguments.config.all_overrides(),
                                                  "", model::layer_types())
                              : arguments.config.load();
  if (config.launch.ranks == 1 && arguments.config.ranks == 0) config.launch.ranks = 2;
  outcome.exit_code = launch::run_ranks(config, cli::host_services(), outcome.arguments,
                                        [&](launch::Rank& rank) { bench_rank(rank, arguments); });
}

}  // namespace runtime::bench
