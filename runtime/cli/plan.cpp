#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "runtime/cli/commands.h"
#include "runtime/cli/session.h"
#include "runtime/error.h"
#include "runtime/train/asynchronous.h"
#include "runtime/train/open.h"
#include "runtime/train/ranks.h"
#include "runtime/train/scaling.h"
#include "runtime/train/step_programs.h"

namespace runtime::cli {

namespace {

using graph::Graph;
using graph::Node;

const char* phase_name(graph::Phase phase) {
  switch (phase) {
    case graph::Phase::kForward:
      return "forward";
    case graph::Phase::kBackward:
      return "backward";
    case graph::Phase::kUpdate:
      return "update";
    default:
      return "pack";
  }
}

const char* post_op_name(const graph::PostOp& p) {
  switch (p.kind) {
    case RT_POST_BIAS:
      return "bias";
    case RT_POST_ACTIVATION:
      return "activation";
    case RT_POST_RESIDUAL_ADD:
      return "residual add";
    default:
      return "activation backward";
  }
}

std::string fused(const Node& node) {
  std::string text;
  for (const graph::PostOp& p : node.post_ops)
    text += std::string(text.empty() ? "" : ", ") + post_op_name(p);
  return text;
}

std::string layout_text(plugins::host::Device& device, const graph::Value& value) {
  if (value.layout == RT_LAYOUT_CANONICAL) return graph::to_string(value.dims);
  return graph::to_string(value.dims) + " " +
         device.layout_name(plugins::host::make_tensor_desc(value.dtype, value.dims, value.layout));
}

void print_operations(const Graph& graph, plugins::host::Device& device) {
  fmt::print("{:<9} {:<22} {:<26} {:<34} {:<40} {:>9}  {}\n", "phase", "layer", "operation",
             "implementation", "output", "MFLOP", "fused");
  for (const Node& node : graph.nodes) {
    const std::string output =
        node.outputs.empty() ? "" : layout_text(device, graph.value(node.outputs[0]));
    fmt::print("{:<9} {:<22} {:<26} {:<34} {:<40} {:>9.2f}  {}\n", phase_name(node.phase),
               node.layer, node.op, node.implementation, output, graph::flops(graph, node) / 1e6,
               fused(node));
  }
}

std::string mib(uint64_t bytes) {
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
}

uint64_t gradient_bytes(const exec::MemoryReport& m) {
  uint64_t bytes = 0;
  for (const exec::BufferInfo& b : m.buffers) {
    if (b.kind == graph::ValueKind::kState && b.name.find("gradients") != std::string::npos)
      bytes += b.bytes;
  }
  return bytes;
}

void print_memory(const exec::MemoryReport& m) {
  const uint64_t gradients = gradient_bytes(m);
  fmt::print("\nmemory\n");
  fmt::print("  parameters                   {:>14}\n", mib(m.parameters));
  fmt::print("  gradients, optimizer, state  {:>14}   (gradients {}, the rest {})\n",
             mib(m.gradients_and_state), mib(gradients), mib(m.gradients_and_state - gradients));
  fmt::print("  packed weights               {:>14}\n", mib(m.packed));
  fmt::print("  activations and workspace    {:>14}   (at least {}; largest workspace {})\n",
             mib(m.arena), mib(m.lower_bound), mib(m.largest_workspace));
  fmt::print("  total                        {:>14}\n",
             mib(m.parameters + m.gradients_and_state + m.packed + m.arena));
  fmt::print("\n{:<44} {:>12} {:>12} {:>6} {:>6}\n", "buffer", "bytes", "offset", "first", "last");
  for (const exec::BufferInfo& b : m.buffers) {
    const bool persistent = b.kind == graph::ValueKind::kParameter ||
                            b.kind == graph::ValueKind::kState ||
                            b.kind == graph::ValueKind::kPacked;
    fmt::print("{:<44} {:>12} {:>12} {:>6} {:>6}\n", b.name, b.bytes,
               persistent ? "own" : std::to_string(b.offset), b.first, b.last);
  }
}

double count_parameters(const train::StepGraph& step) {
  double count = 0;
  for (const model::Parameter& parameter : step.parameters)
    count +=
        parameter.trainable ? static_cast<double>(graph::element_count(parameter.file_dims)) : 0;
  return count;
}

// What rank 0 computes in a step, and where it keeps it. Returns the program.
const exec::Program& print_rank(train::StepPrograms& programs, const std::string& ranks) {
  const train::StepProgram& p = programs.any_program();
  plugins::host::Device& device = *programs.device;
  const int64_t batch = programs.config.training.global_batch_size;
  const int64_t passes = parallel::micro_steps(batch, programs.split);
  const auto rows = static_cast<double>(parallel::rows_of_rank(batch, programs.split).size());
  fmt::print("{} on {} ({}), batch {}{}, {:.0f} parameters\n\n", programs.config.name, device.id(),
             device.properties().name, batch, ranks, count_parameters(p.step));
  print_operations(p.program->graph(), device);
  const double flops = train::step_flops(p.program->graph(), passes);
  fmt::print("\n{} operations, {:.2f} GFLOP a step, {:.2f} MFLOP a sample{}{}\n",
             p.program->graph().nodes.size(), flops / 1e9, flops / 1e6 / rows,
             programs.spec.labels > 1 ? fmt::format(" of {} tokens", programs.spec.labels) : "",
             passes > 1 ? fmt::format("; {} passes a step", passes) : "");
  return *p.program;
}

void print_plan(Session& session) {
  const exec::Program& program = print_rank(session.trainer->programs(), "");
  print_memory(program.memory());
  for (const std::string& note : session.trainer->notes()) fmt::print("note: {}\n", note);
}

// ---- one rank of several, none of which is started

void print_collectives(const parallel::Prediction& prediction) {
  fmt::print("\n{:<36} {:>14} {:>16} {:>12}\n", "collective", "bytes", "on the wire", "us");
  uint64_t bytes = 0;
  double wire = 0;
  for (const parallel::CollectiveCost& c : prediction.collectives) {
    fmt::print("{:<36} {:>14} {:>16.0f} {:>12.1f}\n", c.name, c.bytes, c.wire_bytes,
               c.seconds * 1e6);
    bytes += c.bytes;
    wire += c.wire_bytes;
  }
  fmt::print("{:<36} {:>14} {:>16.0f} {:>12.1f}\n", "sum, of a rank in a step", bytes, wire,
             prediction.times.sync * 1e6);
}

void print_efficiency(const train::StepPrograms& programs, const parallel::Prediction& prediction) {
  const parallel::StepTimes& t = prediction.times;
  if (t.compute <= 0) {
    fmt::print(
        "\n{} does not estimate times, so T_comp is unknown; T_sync {:.3f} ms\nnext: runtime bench "
        "CONFIG --scaling 1,{}\n",
        programs.device->id(), t.sync * 1e3, t.ranks);
    return;
  }
  parallel::Explanation e;
  e.times = t;
  e.global_batch = programs.config.training.global_batch_size;
  e.alone = "estimated in proportion to the samples";
  fmt::print("\nprediction: computing as {} with its threads, none of them shared\n{}\n",
             programs.device->id(), parallel::explain(e));
}

struct PlanArguments {
  ConfigArguments config;
  int world_size = 1;
  double latency_us = 0, bandwidth_gbps = 0;  // 0: the default
};

parallel::Link make_link(const PlanArguments& arguments, const std::string& backend) {
  parallel::Link link = parallel::default_link(backend);
  if (arguments.latency_us > 0) link.latency_s = arguments.latency_us * 1e-6;
  if (arguments.bandwidth_gbps > 0) link.bytes_per_second = arguments.bandwidth_gbps * 1e9 / 8;
  fmt::print("\nlink ({}): latency {:.1f} us, bandwidth {:.1f} Gbit/s{}\n", backend,
             link.latency_s * 1e6, link.bytes_per_second * 8e-9,
             link.in_background ? "" : ", idle while the rank computes");
  return link;
}

void plan_rank_zero(const launch::Rank& rank, const PlanArguments& arguments) {
  const config::Config& config = rank.config;
  const auto device = train::open_device(config, *rank.registry, 0, nullptr);
  const data::DatasetPair data = train::open_data(config, std::getenv("RUNTIME_DATA_PATH"));
  train::StepPrograms programs(config, data.train->spec(), device, train::compile_options(config));
  programs.split.world_size = arguments.world_size;
  const exec::Program& program =
      print_rank(programs, fmt::format(", rank 0 of {}", arguments.world_size));
  const std::string backend = config.comm.backend == "auto" ? "local" : config.comm.backend;
  const parallel::Prediction prediction = parallel::predict(
      program.graph(),
      train::predict_options(config, programs.split, make_link(arguments, backend)));
  print_collectives(prediction);
  print_memory(program.memory());
  for (const std::string& note : programs.notes) fmt::print("note: {}\n", note);
  if (!train::is_asynchronous(config, arguments.world_size)) print_efficiency(programs, prediction);
}

void run_plan(const PlanArguments& arguments, Outcome& outcome) {
  launch::RunRanks run;
  run.config = arguments.config.load();
  run.config.launch.ranks = 1;
  if (arguments.world_size == 1) return run_sessions(run, outcome, print_plan);
  run.config = train::resolve_ranks(run.config, arguments.world_size);
  const config::Parallelism& p = run.config.parallelism;
  if (p.tensor * p.pipeline > 1) {
    throw ConfigurationError(fmt::format(
        "parallelism.tensor = {} and pipeline = {}: plan knows data-parallel ranks only; set both "
        "to 1 for their plan, or look at a short run (runtime train --max-steps 5 --nproc {})",
        p.tensor, p.pipeline, arguments.world_size));
  }
  run.services = host_services();
  run.body = [&](launch::Rank& rank) { plan_rank_zero(rank, arguments); };
  launch::run_ranks(run);
}

}  // namespace

void add_plan(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Operations, implementations, fusion, memory by buffer and FLOPs of a step; trains nothing");
  arguments->config.add_to(*command);
  CLI::Option* ranks =
      command
          ->add_option("--world-size", arguments->world_size,
                       "Plans rank 0 of so many, with what they send and whether they pay; starts "
                       "none of them")
          ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--latency-us", arguments->latency_us,
                   "Of a message between ranks; default: local 5, gloo 50, others 10")
      ->check(CLI::PositiveNumber)
      ->needs(ranks);
  command
      ->add_option("--bandwidth-gbps", arguments->bandwidth_gbps,
                   "Of a rank, in Gbit/s; default: local 64, gloo 8, others 16; runtime bench comm "
                   "measures both")
      ->check(CLI::PositiveNumber)
      ->needs(ranks);
  command->footer(
      "Examples:\n  runtime plan configs/fashion_mnist_lenet.toml --set device.backend=cpu\n  "
      "runtime plan configs/cifar10_resnet18.toml --world-size 8 --set comm.backend=gloo "
      "--bandwidth-gbps 10");
  command->callback([arguments, &outcome] { run_plan(*arguments, outcome); });
}

}  // namespace runtime::cli
