// `runtime bench CONFIG --scaling 1,2,4`.
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "plugins/host/program.h"
#include "runtime/analysis/scaling.h"
#include "runtime/error.h"
#include "runtime/launch/child.h"
#include "runtime/launch/cores.h"
#include "runtime/launch/environment.h"
#include "runtime/terminal/status_line.h"
#include "runtime/terminal/table.h"
#include "runtime/train/formatted.h"
#include "tools/bench/bench.h"

namespace runtime::bench {

namespace {

using nlohmann::ordered_json;

struct ScalingRow {
  ordered_json bench;  // what the run has printed
  parallel::StepTimes times;
  double samples_per_second = 0, predicted_efficiency = 0, bubble = 0;
  bool data_parallel = true;
};

struct Plan {
  const BenchArguments& bench;
  int threads = 0;            // threads of each rank
  int64_t batch = 0;          // the global batch; with --weak the batch of each rank
  bool batch_is_set = false;  // whether CONFIG has training.batch_size_per_rank

  std::vector<std::string> arguments(int ranks) const;
};

std::vector<std::string> Plan::arguments(int ranks) const {
  std::vector<std::string> list = {"runtime-bench", bench.config.path, "--json"};
  const auto add = [&](const char* option, std::string value) {
    list.push_back(option);
    list.push_back(std::move(value));
  };
  add("--steps", std::to_string(bench.steps));
  add("--nproc", std::to_string(ranks));
  for (const std::string& text : bench.config.overrides) add("--set", text);
  add("--set", "device.threads=" + std::to_string(threads));
  if (ranks == 1) {  // one rank computes the whole model
    for (const char* degree : {"data=-1", "tensor=1", "pipeline=1", "search=false"})
      add("--set", std::string("parallelism.") + degree);
  }
  if (bench.weak && !batch_is_set)
    add("--set", "training.global_batch_size=" + std::to_string(batch * ranks));
  return list;
}

Plan make_plan(const BenchArguments& bench, int most_ranks) {
  const config::Config config = bench.config.load();
  if (const std::string source = launch::detect().source; !source.empty()) {
    throw ConfigurationError("--scaling starts the ranks itself, but this process is a rank that " +
                             source + " has started; run it without");
  }
  Plan plan{bench};
  plan.threads = config.device.threads > 0 ? config.device.threads : launch::threads_of(most_ranks);
  plan.batch_is_set = config.training.batch_size_per_rank > 0;
  plan.batch =
      plan.batch_is_set ? config.training.batch_size_per_rank : config.training.global_batch_size;
  if (plan.batch_is_set && !bench.weak) {
    throw ConfigurationError(
        "--scaling keeps the global batch, but the configuration has training.batch_size_per_rank; "
        "add --weak, which keeps the batch per rank, or set training.global_batch_size");
  }
  return plan;
}

// Appends what a pipe holds; returns false at its end.
bool read_some(int fd, std::string& text) {
  char buffer[4096];
  const ssize_t bytes = read(fd, buffer, sizeof(buffer));
  if (bytes > 0) text.append(buffer, static_cast<size_t>(bytes));
  if (bytes >= 0 || errno == EAGAIN || errno == EINTR) return bytes != 0;
  throw CommunicationError(std::string("cannot read what a run prints: ") + std::strerror(errno) +
                           "; start the runs alone (--nproc)");
}

// Returns what a run prints on its standard output. Its notes and errors go to the terminal at
// once.
std::string read_all(const launch::Child& child, terminal::StatusLine& line) {
  std::string out, notes;
  bool out_open = true, notes_open = true;
  while (out_open || notes_open) {
    pollfd files[] = {{out_open ? child.out.get() : -1, POLLIN, 0},
                      {notes_open ? child.err.get() : -1, POLLIN, 0}};
    poll(files, 2, -1);
    if (files[0].revents != 0) out_open = read_some(child.out.get(), out);
    if (files[1].revents != 0) notes_open = read_some(child.err.get(), notes);
    for (size_t end; (end = notes.find('\n')) != std::string::npos; notes.erase(0, end + 1))
      line.print(notes.substr(0, end));
  }
  if (!notes.empty()) line.print(notes);
  return out;
}

ordered_json run_bench(const Plan& plan, int ranks, terminal::StatusLine& line) {
  launch::ChildSpec spec;
  spec.name = "the run of " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  spec.program = plugins::host::program_path().string();
  spec.arguments = plan.arguments(ranks);
  spec.remedy = "start it where this program can be read";
  spec.end_signal = SIGTERM;
  const launch::Child child = launch::start(spec);
  const std::string out = read_all(child, line);
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw Error(
        WIFEXITED(status) ? static_cast<ExitCode>(WEXITSTATUS(status)) : ExitCode::kCommunication,
        spec.name + " failed, see above; try it alone: runtime bench CONFIG --nproc " +
            std::to_string(ranks));
  }
  return ordered_json::parse(out);
}

ScalingRow make_row(ordered_json bench) {
  ScalingRow row;
  row.samples_per_second = bench["samples_per_second"];
  row.times.ranks = bench["world_size"];
  row.times.compute = bench["step_ms_median"].get<double>() / 1e3;
  row.predicted_efficiency = 1;
  if (bench.contains("scaling")) {
    const ordered_json& s = bench["scaling"];
    row.times.compute = s["t_comp_ms"].get<double>() / 1e3;
    row.times.sync = s["t_sync_ms"].get<double>() / 1e3;
    row.times.exposed = s["exposed_t_sync_ms"].get<double>() / 1e3;
    row.predicted_efficiency =
        s["predicted_efficiency"].is_null() ? 0 : s["predicted_efficiency"].get<double>();
    row.bubble = s["bubble"];
    row.data_parallel = s["mesh"]["data"] == row.times.ranks;
  }
  row.bench = std::move(bench);
  return row;
}

// Compares a run with that of one rank, which is the first row.
parallel::ComparedRuns compare(const Plan& plan, const ScalingRow& row, const ScalingRow& one) {
  const auto step_s = [](const ScalingRow& r) {
    return r.bench["step_ms_median"].get<double>() / 1e3;
  };
  return {row.times.ranks, step_s(row), step_s(one), !plan.bench.weak, row.times.exposed};
}

void print_json(const Plan& plan, const std::vector<ScalingRow>& rows) {
  ordered_json j;
  j["config"] = rows[0].bench["config"];
  j["device"] = rows[0].bench["device"];
  j["mode"] = plan.bench.weak ? "fixed_batch_per_rank" : "fixed_global_batch";
  j["threads_per_rank"] = plan.threads;
  j["rounds"] = plan.bench.rounds;
  j["runs"] = ordered_json::array();
  for (const ScalingRow& row : rows) {
    const double speed_up = row.samples_per_second / rows[0].samples_per_second;
    ordered_json r;
    r["ranks"] = row.times.ranks;
    r["global_batch_size"] = row.bench["global_batch_size"];
    r["step_ms"] = row.bench["step_ms_median"];
    r["samples_per_second"] = row.samples_per_second;
    r["speed_up"] = speed_up;
    r["efficiency"] = speed_up / row.times.ranks;
    r["t_comp_ms"] = row.times.compute * 1e3;
    r["t_sync_ms"] = row.times.sync * 1e3;
    r["exposed_t_sync_ms"] = row.times.exposed * 1e3;
    r["predicted_efficiency"] = nullptr;
    if (row.predicted_efficiency > 0) r["predicted_efficiency"] = row.predicted_efficiency;
    if (row.bench.contains("scaling")) {
      for (const char* key : {"mesh", "t_sync_ms_by_axis", "exposed_t_sync_ms_by_axis", "bubble",
                              "predicted_step_ms", "predicted_bubble"})
        r[key] = row.bench["scaling"][key];
    }
    if (row.times.ranks > 1) r["pays"] = compare(plan, row, rows[0]).pays();
    j["runs"].push_back(std::move(r));
  }
  std::cout << j.dump() << std::endl;
}

std::vector<std::string> cells_of(const ScalingRow& row, const ScalingRow& one) {
  const double speed_up = row.samples_per_second / one.samples_per_second;
  const auto ms = [](double seconds) { return fmt::format("{:.3f}", seconds * 1e3); };
  return {
      std::to_string(row.times.ranks),
      std::to_string(row.bench["global_batch_size"].get<int64_t>()),
      fmt::format("{:.3f}", row.bench["step_ms_median"].get<double>()),
      train::rate_text(row.samples_per_second),
      fmt::format("{:.2f}", speed_up),
      fmt::format("{:.2f}", speed_up / row.times.ranks),
      ms(row.times.compute),
      ms(row.times.sync),
      ms(row.times.exposed),
      fmt::format("{:.3f}", row.bubble),
      row.predicted_efficiency > 0 ? fmt::format("{:.2f}", row.predicted_efficiency) : "unknown"};
}

void print_table(const Plan& plan, const std::vector<ScalingRow>& rows) {
  say("{} on {}, {}, {} {} a rank, median of {} steps in {} rounds; times in ms\n\n",
      rows[0].bench["config"].get<std::string>(), rows[0].bench["device"].get<std::string>(),
      plan.bench.weak ? "fixed batch per rank" : "fixed global batch", plan.threads,
      plan.threads == 1 ? "thread" : "threads", plan.bench.steps, plan.bench.rounds);
  const auto kNumber = terminal::Column::Kind::kNumber;
  terminal::Table table({{"ranks", kNumber},
                         {"batch", kNumber},
                         {"step", kNumber},
                         {"samples/s", kNumber},
                         {"speed-up", kNumber},
                         {"efficiency", kNumber},
                         {"T_comp", kNumber, 3},
                         {"T_sync", kNumber, 4},
                         {"exposed", kNumber, 5},
                         {"bubble", kNumber, 1},
                         {"predicted", kNumber, 2}});
  for (const ScalingRow& row : rows) table.add(cells_of(row, rows[0]));
  table.print();
  fmt::print("\n");
  for (const ScalingRow& row : rows) {
    if (row.times.ranks > 1 && (row.data_parallel || !plan.bench.weak))
      say("{} ranks, {}\n", row.times.ranks, parallel::decide(compare(plan, row, rows[0])));
  }
}

}  // namespace

void run_scaling_bench(const BenchArguments& bench) {
  std::set<int> ranks(bench.scaling.begin(), bench.scaling.end());
  ranks.insert(1);
  const Plan plan = make_plan(bench, *ranks.rbegin());
  // The world sizes are measured in turn, so that a machine whose speed drifts treats all of them
  // alike.
  std::map<int, std::vector<ordered_json>> runs;
  terminal::StatusLine status;
  for (int round = 0; round < bench.rounds; ++round) {
    for (const int r : ranks) {
      status.begin(fmt::format("round {} of {}: measuring {} {} of up to {}", round + 1,
                               bench.rounds, r, r == 1 ? "rank" : "ranks", *ranks.rbegin()));
      runs[r].push_back(run_bench(plan, r, status));
    }
  }
  status.clear();
  std::vector<ScalingRow> rows;
  for (auto& [r, all] : runs) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end(), [](const auto& a, const auto& b) {
      return a["step_ms_median"] < b["step_ms_median"];
    });
    rows.push_back(make_row(std::move(*middle)));
  }
  bench.json ? print_json(plan, rows) : print_table(plan, rows);
}

}  // namespace runtime::bench
