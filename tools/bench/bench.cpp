// Times training steps after a warm-up, and prints medians, memory and the time of each layer.
#include "tools/bench/bench.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/analysis/scaling.h"
#include "runtime/error.h"
#include "runtime/median.h"
#include "runtime/step/ranks.h"
#include "runtime/terminal/table.h"
#include "runtime/train/cost_meter.h"
#include "runtime/train/device_meter.h"
#include "runtime/train/formatted.h"
#include "runtime/train/model_flops.h"
#include "runtime/train/open.h"

namespace runtime::bench {

uint64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

void print_layers(Session& s, train::StepProgram& step, int64_t steps, const NextBatch& next) {
  exec::Program& program = *step.program;
  std::vector<std::vector<double>> times(program.graph().nodes.size());
  for (int64_t i = 0; i < steps + kWarmUp; ++i) {
    s.programs->upload(step, next(), 0, s.config.optimizer.lr, 0);
    std::vector<double> ns;
    program.run_timed(s.programs->stream(), ns);
    for (size_t n = 0; n < ns.size() && i >= kWarmUp; ++n) times[n].push_back(ns[n]);
  }
  if (!s.rank.main()) return;
  using Kind = terminal::Column::Kind;
  terminal::Table table({{"layer"},
                         {"operation"},
                         {"implementation", Kind::kText, 3, terminal::Keep::kEnd},
                         {"us", Kind::kNumber},
                         {"planned us", Kind::kNumber, 2},
                         {"GFLOP/s", Kind::kNumber, 1}});
  double total = 0, planned = 0;
  for (size_t n = 0; n < times.size(); ++n) {
    const graph::Node& node = program.graph().nodes[n];
    const double ns = median(times[n]);
    total += ns;
    planned += node.estimated_ns;
    table.add({node.layer, std::string(node.op), node.implementation,
               fmt::format("{:.1f}", ns / 1e3), fmt::format("{:.1f}", node.estimated_ns / 1e3),
               fmt::format("{:.1f}", graph::flops(program.graph(), node) / ns)});
  }
  table.add_wide("sum",
                 {fmt::format("{:.1f}", total / 1e3), fmt::format("{:.1f}", planned / 1e3), ""});
  table.print();
}

namespace {

using Clock = std::chrono::steady_clock;

// Makes a loader of full batches only.
data::Loader make_loader(const Session& s) {
  data::LoaderOptions options = train::train_loader_options(s.config, s.trainer->split());
  options.last_batch = data::LastBatch::kDrop;
  return {s.data.train, options};
}

// The measurements of one rank.
struct Measured {
  train::StepCost cost;   // medians
  double data_share = 0;  // of the time of all steps, in which the rank waited for its batch
};

// Returns medians of this rank. On a device with queues the next step is queued before the result
// of the last one is waited for, as in training.
Measured measure(Session& s, int64_t steps) {
  data::Loader loader = make_loader(s);
  const int64_t in_flight = s.device->is_inline() ? 0 : 1;
  int64_t pending = 0;
  std::vector<double> times;
  double all = 0, waited_for_data = 0;
  std::array<std::vector<double>, parallel::kAxes> exposed;
  for (int64_t i = 0; i < steps + kWarmUp; ++i) {
    const auto begin = Clock::now();
    const data::Batch& batch = loader.next();
    const std::chrono::duration<double> loaded = Clock::now() - begin;
    s.trainer->step(batch, s.config.optimizer.lr);
    for (++pending; pending > in_flight; --pending) s.trainer->next_result(true);
    const std::chrono::duration<double> elapsed = Clock::now() - begin;
    const parallel::ByAxis waited = train::take_exposed_seconds(*s.programs);
    if (i < kWarmUp) continue;
    times.push_back(elapsed.count());
    all += elapsed.count();
    waited_for_data += loaded.count();
    for (size_t axis = 0; axis < waited.size(); ++axis) exposed[axis].push_back(waited[axis]);
  }
  while (s.trainer->next_result(true)) {
  }
  return {{steps, median(times), {median(exposed[0]), median(exposed[1]), median(exposed[2])}},
          waited_for_data / all};
}

// Sums over all ranks. If ranks are threads of one process, its memory is counted once.
struct Totals {
  double flops = 0;
  uint64_t own_peak = 0, peak = 0;  // bytes; of this process, and of all processes
  train::DeviceLoad load = {};      // of this rank's device, just after the steps
};

Totals totals(const Session& s) {
  const train::DeviceLoad load = train::DeviceMeter(s.device).read();
  const int64_t passes =
      parallel::micro_steps(s.config.training.global_batch_size, s.trainer->split());
  const uint64_t own = peak_memory_bytes();
  double values[] = {graph::step_flops((*s.programs->any_compiled().program).graph(), passes),
                     static_cast<double>(own)};
  const bool one_process = s.rank.one_process;
  if (s.rank.collectives != nullptr)
    s.rank.collectives->all_reduce(values, one_process ? 1 : 2, RT_SUM);
  return {values[0], own, one_process ? own : static_cast<uint64_t>(values[1]), load};
}

void print_bench(const Session& s, const BenchArguments& arguments, const Measured& measured,
                 const Totals& all, const analysis::Scaling& scaling) {
  const double step_s = measured.cost.seconds;
  const double samples = static_cast<double>(s.config.training.global_batch_size) / step_s;
  const int64_t labels = s.data.train->spec().labels;  // above 1: samples are sequences of tokens
  const double tokens = samples * static_cast<double>(labels);
  const bool has_peak = s.config.device.peak_tflops > 0;
  const double mfu =
      has_peak ? train::model_flops_utilisation(s.programs->setup(),
                                                train::model_flops(s.programs->setup()), samples)
               : 0;
  const exec::Recorded recorded = (*s.programs->any_compiled().program).recorded();
  if (!arguments.json) {
    const bool several = s.rank.collectives != nullptr;
    const std::string ranks =
        several ? fmt::format(", {} ranks over {}", s.rank.place.world_size, s.rank.backend) : "";
    say("{} on {}{}: {:.3f} ms a step (median of {}{}), {} samples/s{}, {:.1f}% waiting for "
        "data, {:.1f} GFLOP/s{}, peak memory {:.0f} MiB{}{}\n{}\n",
        s.config.name, s.device->id(), ranks, step_s * 1e3, arguments.steps,
        scaling.predicted ? fmt::format(", predicted {:.3f} ms", scaling.predicted->step() * 1e3)
                          : "",
        train::rate_text(samples),
        labels > 1 ? fmt::format(" ({} tokens/s)", train::rate_text(tokens)) : "",
        measured.data_share * 100, all.flops / step_s / 1e9,
        has_peak ? fmt::format(" (MFU {:.1f}%)", mfu * 100) : "",
        static_cast<double>(all.peak) / (1 << 20),
        several && s.rank.one_process ? " of the process with all ranks" : " of the process",
        recorded.operations > 0
            ? fmt::format(", {} of {} operations replayed as {} recording{}", recorded.operations,
                          (*s.programs->any_compiled().program).graph().nodes.size(),
                          recorded.recordings, recorded.recordings == 1 ? "" : "s")
            : "",
        analysis::explain_memory(scaling));
    if (several) say("{}\n", analysis::explain(scaling));
    return;
  }
  nlohmann::ordered_json j;
  j["config"] = s.config.name;
  j["device"] = s.device->id();
  j["world_size"] = s.rank.place.world_size;
  j["global_batch_size"] = s.config.training.global_batch_size;
  j["steps"] = arguments.steps;
  j["step_ms_median"] = step_s * 1e3;
  j["samples_per_second"] = samples;
  if (labels > 1) j["tokens_per_second"] = tokens;
  j["data_wait_share"] = measured.data_share;
  j["flops_per_second"] = all.flops / step_s;
  if (has_peak) j["mfu"] = mfu;
  j["peak_memory_bytes"] = all.own_peak;
  j["peak_memory_bytes_all_ranks"] = all.peak;
  if (all.load.utilisation) j["device_utilisation"] = *all.load.utilisation;
  if (all.load.memory_bytes) j["device_memory_bytes"] = *all.load.memory_bytes;
  j["operations"] = (*s.programs->any_compiled().program).graph().nodes.size();
  j["recorded_operations"] = recorded.operations;
  auto scaled = nlohmann::ordered_json::parse(analysis::to_json(scaling));
  j["predicted_step_ms"] = scaled["predicted_step_ms"];
  j["memory"] = scaled["memory"];
  if (s.rank.collectives != nullptr) j["scaling"] = std::move(scaled);
  std::cout << j.dump() << std::endl;
}

void bench_rank(Session& s, const BenchArguments& arguments) {
  if (step::is_asynchronous(s.config, s.rank.place.world_size)) {
    throw ConfigurationError(
        "bench measures synchronous steps, but parallelism.update is \"asynchronous\"; take "
        "samples_per_second of runtime train, or --set parallelism.update=synchronous");
  }
  if (s.rank.main()) session::print_notes(*s.programs);
  if (arguments.layers) {
    data::Loader loader = make_loader(s);
    return print_layers(s, s.programs->any_compiled(), arguments.steps,
                        [&]() -> const data::Batch& { return loader.next(); });
  }
  const Measured measured = measure(s, arguments.steps);
  const Totals all = totals(s);  // before planning takes memory too
  const analysis::Planner planner = s.planner();
  analysis::Scaling scaling = analysis::measure_scaling(s.config, *s.programs, s.rank.collectives,
                                                        s.rank.backend, measured.cost, planner);
  s.rank.on_main("the plan of the job", [&] {
    analysis::add_plan(scaling, s.config, planner);
    print_bench(s, arguments, measured, all, scaling);
  });
}

}  // namespace

void run_bench(const BenchArguments& arguments, Outcome& outcome) {
  if (arguments.config.path.empty())
    throw ConfigurationError(
        "bench: CONFIG is missing; for example runtime bench "
        "configs/bench_lenet.toml, or runtime bench comm");
  if (!arguments.scaling.empty()) return run_scaling_bench(arguments);
  if (arguments.data) return run_data_bench(arguments);
  if (arguments.inference) return run_inference_bench(arguments, outcome);
  outcome.exit_code =
      session::run_sessions(arguments.config.load(), cli::host_services(), outcome.arguments,
                            [&](Session& s) { bench_rank(s, arguments); });
}

}  // namespace runtime::bench
