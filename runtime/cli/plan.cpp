#include <fmt/format.h>

#include <cstdlib>
#include <map>

#include "runtime/analysis/job_plan.h"
#include "runtime/analysis/scaling.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/kernels.h"
#include "runtime/cli/passes.h"
#include "runtime/cli/session.h"
#include "runtime/error.h"
#include "runtime/graph/print.h"
#include "runtime/launch/open_device.h"
#include "runtime/step/ranks.h"
#include "runtime/system/available_memory.h"
#include "runtime/train/open.h"
#include "runtime/train/step_programs.h"

namespace runtime::cli {

namespace {

using graph::Graph;
using graph::Node;
using system::mib;

const char* post_op_name(const graph::PostOp& p) {
  switch (p.kind) {
    case RT_POST_BIAS:
      return "bias";
    case RT_POST_ACTIVATION:
      return "activation";
    case RT_POST_RESIDUAL_ADD:
      return "residual add";
    case RT_POST_STORE:
      return "store";
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
  std::string text = graph::to_string(value.dims);
  if (value.dtype == RT_FLOAT16) text += " float16";
  if (value.dtype == RT_BFLOAT16) text += " bfloat16";
  if (value.layout == RT_LAYOUT_CANONICAL) return text;
  return text + " " +
         device.layout_name(plugins::host::make_tensor_desc(value.dtype, value.dims, value.layout));
}

// Prints operations. One that is repeated for another micro-batch is printed once.
void print_operations(const Graph& graph, plugins::host::Device& device) {
  const auto line = [&](const Node& node) {
    const std::string output =
        node.outputs.empty() ? "" : layout_text(device, graph.value(node.outputs[0]));
    return fmt::format("{:<9} {:<22} {:<26} {:<34} {:<40} {:>9.2f}  {}", graph::name_of(node.phase),
                       node.layer, node.op, node.implementation, output,
                       graph::flops(graph, node) / 1e6, fused(node));
  };
  std::map<std::string, int> times;
  for (const Node& node : graph.nodes) ++times[line(node)];
  fmt::print("{:<9} {:<22} {:<26} {:<34} {:<40} {:>9}  {}\n", "phase", "layer", "operation",
             "implementation", "output", "MFLOP", "fused");
  for (const Node& node : graph.nodes) {
    int& count = times[line(node)];
    if (count == 0) continue;
    fmt::print("{}{}\n", line(node), count > 1 ? fmt::format(" ({} times)", count) : "");
    count = 0;
  }
}

// Prints the buffers of rank 0.
void print_buffers(const exec::MemoryReport& m) {
  fmt::print("\n{:<44} {:>12} {:>12} {:>6} {:>6}\n", "buffer", "bytes", "offset", "first", "last");
  for (const exec::BufferInfo& b : m.buffers) {
    const bool persistent =
        b.kind == graph::ValueKind::kParameter || b.kind == graph::ValueKind::kState ||
        b.kind == graph::ValueKind::kPacked || b.kind == graph::ValueKind::kConstant;
    fmt::print("{:<44} {:>12} {:>12} {:>6} {:>6}\n", b.name, b.bytes,
               persistent ? "own" : std::to_string(b.offset), b.first, b.last);
  }
}

double count_parameters(const step::StepValues& values) {
  double count = 0;
  for (const model::Parameter& parameter : values.parameters)
    count +=
        parameter.trainable ? static_cast<double>(graph::element_count(parameter.file_dims)) : 0;
  return count;
}

// Prints what rank 0 computes in a step and where its values are in memory. Returns the program.
const exec::Program& print_rank(train::StepPrograms& programs, const std::string& ranks) {
  const train::StepProgram& p = programs.any_program();
  plugins::host::Device& device = *programs.device();
  const int64_t batch = programs.config().training.global_batch_size;
  const int64_t passes = parallel::micro_steps(batch, programs.strategy().batch);
  const auto rows =
      static_cast<double>(parallel::rows_of_rank(batch, programs.strategy().batch).size());
  fmt::print("{} on {} ({}), batch {}{}, {:.0f} parameters\n\n", programs.config().name,
             device.id(), device.properties().name, batch, ranks, count_parameters(p.values));
  print_operations(p.program->graph(), device);
  const double flops = graph::step_flops(p.program->graph(), passes);
  fmt::print("\n{} operations, {:.2f} GFLOP a step, {:.2f} MFLOP a sample{}{}\n",
             p.program->graph().nodes.size(), flops / 1e9, flops / 1e6 / rows,
             programs.spec().labels > 1 ? fmt::format(" of {} tokens", programs.spec().labels) : "",
             passes > 1 ? fmt::format("; {} passes a step", passes) : "");
  return *p.program;
}

// ---- the plan of the whole job, which starts no rank

std::string numbers(const std::vector<int>& ranks) {
  return ranks.size() == 1 ? std::to_string(ranks[0])
                           : fmt::format("{}-{}", ranks.front(), ranks.back());
}

void print_roles(const analysis::JobPlan& plan) {
  fmt::print("\n{:<9} {:>13} {:>13} {:>13} {:>13} {:>13} {:>13} {:>9}  {}\n", "ranks", "parameters",
             "gradients", "optimizer", "packed", "activations", "total", "GFLOP", "layers");
  for (const analysis::RolePlan& role : plan.roles) {
    const analysis::RankMemory& m = role.memory;
    fmt::print("{:<9} {:>13} {:>13} {:>13} {:>13} {:>13} {:>13} {:>9.2f}  {}\n",
               numbers(role.ranks), mib(m.parameters), mib(m.gradients), mib(m.state),
               mib(m.packed), mib(m.arena), mib(m.total()), role.flops / 1e9, role.layers);
  }
  fmt::print(
      "memory and work of each of these ranks; optimizer: and other state; activations: and "
      "inputs, "
      "and workspace, at most {} of one operation\n",
      mib(plan.roles[0].memory.largest_workspace));
  if (!plan.fits())
    fmt::print("warning: a rank needs {} and has {}\n", mib(plan.peak()), mib(plan.memory_limit));
}

// Prints what each rank of a role lets another device compute, and what that costs.
void print_fallback(const analysis::RolePlan& role, const std::string& device, bool measured) {
  if (role.fallback.empty()) return;
  fmt::print("\n{:<9} {:<22} {:<26} {:>8} {:>14} {:>14} {:>12} {:>12}\n", "phase", "layer",
             "on " + device, "launches", "bytes to host", "and back", "copies us", "kernel us");
  const auto line = [](const analysis::FallbackUse& u) {
    fmt::print("{:<9} {:<22} {:<26} {:>8} {:>14} {:>14} {:>12.1f} {:>12}\n", u.phase, u.layer,
               u.operation, u.launches, u.bytes_to_host, u.bytes_from_host, u.copy_ns * 1e-3,
               u.kernel_ns > 0 ? fmt::format("{:.1f}", u.kernel_ns * 1e-3) : "-");
  };
  analysis::FallbackUse sum;
  sum.phase = "sum";
  for (const analysis::FallbackUse& use : role.fallback) {
    line(use);
    sum.launches += use.launches;
    sum.bytes_to_host += use.bytes_to_host;
    sum.bytes_from_host += use.bytes_from_host;
    sum.copy_ns += use.copy_ns;
    sum.kernel_ns += use.kernel_ns;
  }
  line(sum);
  fmt::print(
      "device.host_fallback, a step of rank {}: operations that its device refuses; times are {}; "
      "they take {} of host memory\n",
      numbers(role.ranks), measured ? "measured" : "estimated", mib(role.fallback_bytes));
}

void print_collectives(const parallel::RankPrediction& rank) {
  fmt::print("\n{:<44} {:<9} {:>6} {:>14} {:>16} {:>12}\n", "collective, of rank 0", "axis",
             "calls", "bytes", "on the wire", "us");
  uint64_t bytes = 0;
  double wire = 0, seconds = 0;
  int64_t calls = 0;
  for (const parallel::CollectiveCost& c : rank.collectives) {
    fmt::print("{:<44} {:<9} {:>6} {:>14} {:>16.0f} {:>12.1f}\n", c.name,
               parallel::kAxisNames[c.axis], c.calls, c.bytes, c.wire_bytes, c.seconds * 1e6);
    bytes += c.bytes;
    wire += c.wire_bytes;
    seconds += c.seconds;
    calls += c.calls;
  }
  fmt::print("{:<54} {:>6} {:>14} {:>16.0f} {:>12.1f}\n", "sum, of a rank in a step", calls, bytes,
             wire, seconds * 1e6);
}

// Prints one line for each group of ranks that hold the same layers: the computing time, and for
// each axis of the mesh the bytes on the wire, T_sync and its exposed part.
void print_traffic(const analysis::JobPlan& plan) {
  fmt::print("\n{:<9} {:>12}", "ranks", "T_comp ms");
  for (int axis = 0; axis < parallel::kAxes; ++axis) {
    if (plan.mesh.degree(axis) > 1)
      fmt::print(" {:>16} {:>10} {:>10}", fmt::format("{}: bytes", parallel::kAxisNames[axis]),
                 "T_sync ms", "exposed ms");
  }
  fmt::print("\n");
  for (size_t i = 0; i < plan.roles.size(); ++i) {
    const parallel::RankPrediction& p = plan.prediction.ranks[i];
    fmt::print("{:<9} {:>12.3f}", numbers(plan.roles[i].ranks), p.compute * 1e3);
    for (int axis = 0; axis < parallel::kAxes; ++axis) {
      if (plan.mesh.degree(axis) > 1)
        fmt::print(" {:>16.0f} {:>10.3f} {:>10.3f}", p.wire_bytes[axis], p.sync[axis] * 1e3,
                   p.exposed[axis] * 1e3);
    }
    fmt::print("\n");
  }
}

void print_prediction(const config::Config& config, const analysis::Planner& planner,
                      const analysis::JobPlan& plan) {
  const parallel::StepTimes& t = plan.prediction.times;
  const std::string id = planner.device->id();
  if (t.compute <= 0) {
    fmt::print(
        "\n{} does not estimate times and device.tune is \"off\", so T_comp is unknown; T_sync "
        "{:.3f} ms\nnext: runtime bench CONFIG --nproc {}\n",
        id, t.sync * 1e3, t.ranks);
    return;
  }
  const std::string how =
      plan.measured ? "measured, operation by operation" : "estimated, not measured";
  if (t.ranks == 1) {
    fmt::print("\nprediction: {:.3f} ms a step on {} ({})\n", t.step() * 1e3, id, how);
    return;
  }
  parallel::Explanation e;
  e.times = t;
  e.mesh = plan.mesh;
  e.global_batch = config.training.global_batch_size;
  e.alone = plan.measured ? "measured" : "estimated";
  fmt::print("\nprediction: computing as {} with its threads, none of them shared ({})\n{}\n", id,
             how, parallel::explain(e));
}

// Replaces what the plugin says of its link by what the arguments say.
parallel::Link make_link(const PlanArguments& arguments, parallel::Link link) {
  if (arguments.latency_us > 0) link.latency_s = arguments.latency_us * 1e-6;
  if (arguments.bandwidth_gbps > 0) link.bytes_per_second = arguments.bandwidth_gbps * 1e9 / 8;
  return link;
}

void print_link(const parallel::Link& link, const std::string& backend) {
  fmt::print("\nlink ({}): latency {:.1f} us, bandwidth {:.1f} Gbit/s{}\n", backend,
             link.latency_s * 1e6, link.bytes_per_second * 8e-9,
             link.in_background ? "" : ", idle while the rank computes");
}

// Prints the table of parallelism.search.
void print_candidates(const std::vector<analysis::Candidate>& candidates) {
  fmt::print("{:<40} {:>14} {:>12} {:>8}  {}\n", "mesh", "of a rank", "ms a step", "bubble", "");
  for (const analysis::Candidate& c : candidates) {
    const bool planned = !c.plan.roles.empty();
    const parallel::StepTimes& t = c.plan.prediction.times;
    fmt::print("{:<40} {:>14} {:>12} {:>8}  {}\n", to_string(c.mesh),
               planned ? mib(c.plan.peak()) : "-",
               planned && t.compute > 0 ? fmt::format("{:.3f}", t.step() * 1e3) : "-",
               planned && t.compute > 0 ? fmt::format("{:.3f}", t.bubble()) : "-",
               c.reason.empty() ? "" : "no: " + c.reason);
  }
  const analysis::Candidate& best = analysis::best_of(candidates);
  fmt::print("\nproposed: parallelism.data = {}, tensor = {}, pipeline = {}\n\n", best.mesh.data,
             best.mesh.tensor, best.mesh.pipeline);
}

void plan_ranks(const launch::Rank& rank, const PlanArguments& arguments) {
  config::Config config = rank.config;
  const int ranks = arguments.world_size;
  const auto device = launch::open_device(config, *rank.registry, 0, nullptr);
  const data::DatasetPair data =
      train::open_data(config, std::getenv("RUNTIME_DATA_PATH"), rank.registry.get());
  const launch::PlannedRanks planned = launch::planned_ranks(*rank.registry, config.comm.backend);
  const auto fallback = launch::open_fallback(config, *rank.registry, *device, 0);
  analysis::Planner planner = make_planner(config, data, device, fallback, planned);
  planner.link = make_link(arguments, planned.link);
  if (config.parallelism.search && ranks > 1) {
    const std::vector<analysis::Candidate> candidates =
        analysis::search(config, ranks, planner, search_progress());
    print_candidates(candidates);
    config = analysis::best_of(candidates).config;
  }
  config = step::resolve_ranks(config, ranks);
  analysis::JobPlan plan = planner.plan(config, ranks);
  train::StepPrograms programs(config, planner.spec, device, planner.options,
                               train::PlannedRank{0, ranks});
  if (arguments.passes || !arguments.dump_graph.empty()) show_passes(programs, arguments);
  const std::string which = ranks == 1 ? "" : fmt::format(", rank 0 of {}", ranks);
  const exec::Program& program = print_rank(programs, which);
  print_buffers(program.memory());
  show_kernels(programs, arguments);
  for (const std::string& note : plan.notes) fmt::print("note: {}\n", note);
  print_roles(plan);
  for (const analysis::RolePlan& role : plan.roles)
    if (fallback != nullptr) print_fallback(role, fallback->id(), plan.measured);
  if (ranks > 1) {
    print_link(planner.link, planned.backend);
    print_collectives(plan.prediction.ranks[0]);
    if (step::is_asynchronous(config, ranks)) return;
    print_traffic(plan);
    planner.predict_alone(config, plan);
  }
  print_prediction(config, planner, plan);
}

}  // namespace

void run_plan(const PlanArguments& arguments) {
  launch::RunRanks run;
  run.config = arguments.config.load();
  run.config.launch.ranks = 1;
  run.services = host_services();
  run.body = [&](launch::Rank& rank) { plan_ranks(rank, arguments); };
  launch::run_ranks(run);
}

}  // namespace runtime::cli
