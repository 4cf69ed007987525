#include <fmt/format.h>

#include <algorithm>

#include "runtime/cli/commands.h"
#include "runtime/cli/session.h"

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

void print_memory(const exec::MemoryReport& m, bool buffers) {
  fmt::print("\nmemory\n");
  fmt::print("  parameters                   {:>14}\n", mib(m.parameters));
  fmt::print("  gradients, optimizer, state  {:>14}\n", mib(m.gradients_and_state));
  fmt::print("  packed weights               {:>14}\n", mib(m.packed));
  fmt::print("  activations and workspace    {:>14}   (at least {}; largest workspace {})\n",
             mib(m.arena), mib(m.lower_bound), mib(m.largest_workspace));
  fmt::print("  total                        {:>14}\n",
             mib(m.parameters + m.gradients_and_state + m.packed + m.arena));
  if (!buffers) return;
  fmt::print("\n{:<44} {:>12} {:>12} {:>6} {:>6}\n", "buffer", "bytes", "offset", "first", "last");
  for (const exec::BufferInfo& b : m.buffers) {
    const bool persistent = b.kind == graph::ValueKind::kParameter ||
                            b.kind == graph::ValueKind::kState ||
                            b.kind == graph::ValueKind::kPacked;
    fmt::print("{:<44} {:>12} {:>12} {:>6} {:>6}\n", b.name, b.bytes,
               persistent ? "own" : std::to_string(b.offset), b.first, b.last);
  }
}

void print_plan(Session& session) {
  const int64_t rows = session.config.training.global_batch_size;
  exec::Program& program = session.trainer->program(rows);
  fmt::print("{} on {} ({}), batch {}, {} parameters\n\n", session.config.name,
             session.device->id(), session.device->properties().name, rows,
             session.trainer->parameter_count());
  print_operations(program.graph(), *session.device);
  double total = 0;
  for (const Node& node : program.graph().nodes) total += graph::flops(program.graph(), node);
  fmt::print("\n{} operations, {:.2f} GFLOP a step, {:.2f} MFLOP a sample\n",
             program.graph().nodes.size(), total / 1e9, total / 1e6 / static_cast<double>(rows));
  print_memory(program.memory(), true);
  for (const std::string& note : session.trainer->notes()) fmt::print("note: {}\n", note);
}

void run_plan(const ConfigArguments& arguments, Outcome& outcome) {
  launch::RunRanks run;
  run.config = arguments.load();
  run.config.launch.ranks = 1;
  run_sessions(run, outcome, print_plan);
}

}  // namespace

void add_plan(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<ConfigArguments>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Operations, implementations, fusion, memory by buffer and FLOPs of a step; trains nothing");
  arguments->add_to(*command);
  command->footer(
      "Example:\n  runtime plan configs/fashion_mnist_lenet.toml --set device.backend=cpu");
  command->callback([arguments, &outcome] { run_plan(*arguments, outcome); });
}

}  // namespace runtime::cli
