#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/cli/commands.h"
#include "runtime/cli/session.h"
#include "runtime/train/open.h"

namespace runtime::cli {

namespace {

using Clock = std::chrono::steady_clock;

struct BenchArguments {
  ConfigArguments config;
  int64_t steps = 50;
  bool json = false, layers = false;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

uint64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

// Enough that caches, pages and clock rates have settled.
constexpr int kWarmUp = 5;

struct Measurement {
  double step_ms = 0;
  double flops = 0;
};

Measurement measure(Session& s, int64_t steps) {
  data::LoaderOptions options = train::train_loader_options(s.config, s.trainer->split());
  options.last_batch = data::LastBatch::kDrop;
  data::Loader loader(s.data.train, options);
  std::vector<double> times;
  for (int64_t i = 0; i < steps + kWarmUp; ++i) {
    const auto begin = Clock::now();
    s.trainer->step(loader.next(), s.config.optimizer.lr);
    while (s.trainer->next_result(true)) {
    }
    if (i >= kWarmUp)
      times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  Measurement m;
  m.step_ms = median(times);
  exec::Program& program = s.trainer->program(s.config.training.global_batch_size);
  for (const graph::Node& node : program.graph().nodes)
    m.flops += graph::flops(program.graph(), node);
  return m;
}

void print_layers(Session& s, int64_t steps) {
  data::Loader loader(s.data.train, train::train_loader_options(s.config));
  const int64_t rows = s.config.training.global_batch_size;
  exec::Program& program = s.trainer->program(rows);
  std::vector<std::vector<double>> times(program.graph().nodes.size());
  for (int64_t i = 0; i < steps + kWarmUp; ++i) {
    const data::Batch* batch = &loader.next();
    if (batch->rows != rows) batch = &loader.next();
    s.trainer->upload(*batch, s.config.optimizer.lr);
    std::vector<double> ns;
    program.run_timed(s.trainer->stream(), ns);
    for (size_t n = 0; n < ns.size() && i >= kWarmUp; ++n) times[n].push_back(ns[n]);
  }
  fmt::print("{:<22} {:<26} {:<38} {:>10} {:>10} {:>10}\n", "layer", "operation", "implementation",
             "us", "planned us", "GFLOP/s");
  double total = 0, planned = 0;
  for (size_t n = 0; n < times.size(); ++n) {
    const graph::Node& node = program.graph().nodes[n];
    const double ns = median(times[n]);
    total += ns;
    planned += node.estimated_ns;
    fmt::print("{:<22} {:<26} {:<38} {:>10.1f} {:>10.1f} {:>10.1f}\n", node.layer, node.op,
               node.implementation, ns / 1e3, node.estimated_ns / 1e3,
               graph::flops(program.graph(), node) / ns);
  }
  fmt::print("{:<88} {:>10.1f} {:>10.1f}\n", "sum", total / 1e3, planned / 1e3);
}

void bench_rank(Session& s, const BenchArguments& arguments) {
  if (arguments.layers) return print_layers(s, arguments.steps);
  const Measurement m = measure(s, arguments.steps);
  if (!s.rank.main()) return;
  const double samples = static_cast<double>(s.config.training.global_batch_size) / m.step_ms * 1e3;
  if (!arguments.json) {
    fmt::print(
        "{} on {}: {:.3f} ms a step (median of {}), {:.0f} samples/s, {:.1f} GFLOP/s, peak memory "
        "{:.0f} MiB\n",
        s.config.name, s.device->id(), m.step_ms, arguments.steps, samples,
        m.flops / m.step_ms / 1e6, static_cast<double>(peak_memory_bytes()) / (1 << 20));
    return;
  }
  nlohmann::ordered_json j;
  j["config"] = s.config.name;
  j["device"] = s.device->id();
  j["world_size"] = s.rank.place.world_size;
  j["global_batch_size"] = s.config.training.global_batch_size;
  j["steps"] = arguments.steps;
  j["step_ms_median"] = m.step_ms;
  j["samples_per_second"] = samples;
  j["flops_per_second"] = m.flops / m.step_ms * 1e3;
  j["peak_memory_bytes"] = peak_memory_bytes();
  std::cout << j.dump() << std::endl;
}

void run_bench(const BenchArguments& arguments, Outcome& outcome) {
  run_sessions(arguments.config, outcome, [&](Session& s) { bench_rank(s, arguments); });
}

}  // namespace

void add_bench(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command =
      app.add_subcommand("bench", "Step time, samples/s, FLOP/s and peak memory of training");
  arguments->config.add_to(*command);
  arguments->config.add_ranks_to(*command);
  command->add_option("--steps", arguments->steps, "Measured steps (after a warm-up)")
      ->check(CLI::Range(1, 1000000));
  command->add_flag("--json", arguments->json, "One JSON object");
  command->add_flag(
      "--layers", arguments->layers,
      "A table: time, time that the plan reckoned with, and FLOP/s of each operation");
  command->footer(
      "Examples:\n  runtime bench configs/bench_lenet.toml --steps 100 --json\n  runtime bench "
      "configs/bench_resnet18.toml --layers --steps 10");
  command->callback([arguments, &outcome] { run_bench(*arguments, outcome); });
}

}  // namespace runtime::cli
