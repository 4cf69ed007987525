// The command plan: operations, buffers and times of rank 0, and the ranks of a whole job.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "runtime/analysis/job_plan.h"
#include "runtime/analysis/scaling.h"
#include "runtime/analysis/search.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/kernels.h"
#include "runtime/cli/passes.h"
#include "runtime/cli/say.h"
#include "runtime/error.h"
#include "runtime/graph/print.h"
#include "runtime/launch/open_device.h"
#include "runtime/session/session.h"
#include "runtime/step/ranks.h"
#include "runtime/system/available_memory.h"
#include "runtime/terminal/table.h"
#include "runtime/train/open.h"
#include "runtime/train/rank/step_programs.h"

namespace runtime::cli {

namespace {

using graph::Graph;
using graph::Node;
using system::mib;
using terminal::Table;
using Kind = terminal::Column::Kind;

// By RT_POST_*.
constexpr const char* kPostOps[] = {
    "", "bias", "activation", "residual add", "activation backward", "store"};
static_assert(std::size(kPostOps) == RT_POST_STORE + 1);

std::string fused(const Node& node) {
  std::string text;
  for (const graph::PostOp& p : node.post_ops)
    text += std::string(text.empty() ? "" : ", ") + kPostOps[p.kind];
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
  const auto cells = [&](const Node& node) -> std::vector<std::string> {
    return {graph::name_of(node.phase),
            node.layer,
            std::string(node.op),
            node.implementation,
            node.outputs.empty() ? "" : layout_text(device, graph.value(node.outputs[0])),
            fmt::format("{:.2f}", graph::flops(graph, node) / 1e6),
            fused(node)};
  };
  std::map<std::vector<std::string>, int> times;
  for (const Node& node : graph.nodes) ++times[cells(node)];
  Table table({{"phase"},
               {"layer"},
               {"operation"},
               {"implementation", Kind::kText, 3, terminal::Keep::kEnd},
               {"output", Kind::kText, 2},
               {"MFLOP", Kind::kNumber},
               {"fused", Kind::kText, 1},
               {"times", Kind::kNumber}});
  for (const Node& node : graph.nodes) {
    std::vector<std::string> row = cells(node);
    int& count = times[row];
    if (count > 0) {
      row.push_back(count > 1 ? std::to_string(count) : "");
      table.add(std::move(row));
    }
    count = 0;
  }
  table.print();
}

// Prints the buffers of rank 0.
void print_buffers(const exec::MemoryReport& m) {
  Table table({{"buffer"},
               {"bytes", Kind::kNumber},
               {"offset", Kind::kNumber},
               {"first", Kind::kNumber},
               {"last", Kind::kNumber}});
  for (const exec::BufferInfo& b : m.buffers) {
    const bool persistent =
        b.kind == graph::ValueKind::kParameter || b.kind == graph::ValueKind::kState ||
        b.kind == graph::ValueKind::kPacked || b.kind == graph::ValueKind::kConstant;
    table.add({b.name, std::to_string(b.bytes), persistent ? "own" : std::to_string(b.offset),
               std::to_string(b.first), std::to_string(b.last)});
  }
  fmt::print("\n");
  table.print();
}

// Prints what rank 0 computes in a step and where its values are in memory. Returns the program.
const exec::Program& print_rank(train::StepPrograms& programs, const std::string& ranks) {
  const train::StepProgram& p = programs.any_compiled();
  plugins::host::Device& device = *programs.setup().device;
  const int64_t batch = programs.setup().config.training.global_batch_size;
  const int64_t passes = parallel::micro_steps(batch, programs.setup().strategy.batch);
  const auto rows =
      static_cast<double>(parallel::rows_of_rank(batch, programs.setup().strategy.batch).size());
  say("{} on {} ({}), batch {}{}, {} parameters\n\n", programs.setup().config.name, device.id(),
      device.properties().name, batch, ranks, session::count_trainable(p.values.parameters));
  print_operations(p.program->graph(), device);
  const double flops = graph::step_flops(p.program->graph(), passes);
  say("\n{} operations, {:.2f} GFLOP a step, {:.2f} MFLOP a sample{}{}\n",
      p.program->graph().nodes.size(), flops / 1e9, flops / 1e6 / rows,
      programs.setup().spec.labels > 1 ? fmt::format(" of {} tokens", programs.setup().spec.labels)
                                       : "",
      passes > 1 ? fmt::format("; {} passes a step", passes) : "");
  return *p.program;
}

// ---- the plan of the whole job, which starts no rank

std::string numbers(const std::vector<int>& ranks) {
  return ranks.size() == 1 ? std::to_string(ranks[0])
                           : fmt::format("{}-{}", ranks.front(), ranks.back());
}

void print_roles(const analysis::JobPlan& plan) {
  Table table({{"ranks"},
               {"parameters", Kind::kNumber, 5},
               {"gradients", Kind::kNumber, 4},
               {"optimizer", Kind::kNumber, 3},
               {"packed", Kind::kNumber, 1},
               {"activations", Kind::kNumber, 6},
               {"total", Kind::kNumber},
               {"GFLOP", Kind::kNumber},
               {"layers", Kind::kText, 2}});
  for (const analysis::RolePlan& role : plan.roles) {
    const analysis::RankMemory& m = role.memory;
    table.add({numbers(role.ranks), mib(m.parameters), mib(m.gradients), mib(m.state),
               mib(m.packed), mib(m.arena), mib(m.total()), fmt::format("{:.2f}", role.flops / 1e9),
               role.layers});
  }
  fmt::print("\n");
  table.print();
  say("memory and work of each of these ranks; optimizer: and other state; activations: and "
      "inputs, "
      "and workspace, at most {} of one operation\n",
      mib(plan.roles[0].memory.largest_workspace));
  uint64_t kept = 0;
  for (const analysis::RolePlan& role : plan.roles) kept = std::max(kept, role.checkpoint_bytes);
  if (kept > 0) say("checkpoints keep up to {} of host memory on a rank, beside that\n", mib(kept));
  if (!plan.fits())
    say("warning: a rank needs {} and has {}\n", mib(plan.peak()), mib(plan.memory_limit));
}

// Prints what each rank of a role lets another device compute, and what that costs.
void print_fallback(const analysis::RolePlan& role, const std::string& device, bool measured) {
  if (role.fallback.empty()) return;
  Table table({{"phase", Kind::kText, 2},
               {"layer"},
               {"on " + device},
               {"launches", Kind::kNumber, 1},
               {"bytes to host", Kind::kNumber},
               {"and back", Kind::kNumber},
               {"copies us", Kind::kNumber, 4},
               {"kernel us", Kind::kNumber, 3}});
  const auto line = [&table](const analysis::FallbackUse& u) {
    table.add({u.phase, u.layer, u.operation, std::to_string(u.launches),
               std::to_string(u.bytes_to_host), std::to_string(u.bytes_from_host),
               fmt::format("{:.1f}", u.copy_ns * 1e-3),
               u.kernel_ns > 0 ? fmt::format("{:.1f}", u.kernel_ns * 1e-3) : "-"});
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
  fmt::print("\n");
  table.print();
  say("device.host_fallback, a step of rank {}: operations that its device refuses; times are {}; "
      "they take {} of host memory\n",
      numbers(role.ranks), measured ? "measured" : "estimated", mib(role.fallback_bytes));
}

void print_collectives(const parallel::RankPrediction& rank, bool several_nodes) {
  std::vector<terminal::Column> columns = {{"collective, of rank 0"},
                                           {"axis", Kind::kText, 1},
                                           {"calls", Kind::kNumber},
                                           {"bytes", Kind::kNumber},
                                           {"on the wire", Kind::kNumber, 2}};
  if (several_nodes) columns.push_back({"between nodes", Kind::kNumber, 2});
  columns.push_back({"us", Kind::kNumber});
  Table table(std::move(columns));
  const auto numbers = [&](const parallel::CollectiveCost& c) {
    std::vector<std::string> row = {std::to_string(c.calls), std::to_string(c.bytes),
                                    fmt::format("{:.0f}", c.wire_bytes)};
    if (several_nodes) row.push_back(fmt::format("{:.0f}", c.between_nodes));
    row.push_back(fmt::format("{:.1f}", c.seconds * 1e6));
    return row;
  };
  parallel::CollectiveCost sum;
  for (const parallel::CollectiveCost& c : rank.collectives) {
    std::vector<std::string> row = numbers(c);
    row.insert(row.begin(), {c.name, parallel::kAxisNames[c.axis]});
    table.add(std::move(row));
    sum.calls += c.calls;
    sum.bytes += c.bytes;
    sum.wire_bytes += c.wire_bytes;
    sum.between_nodes += c.between_nodes;
    sum.seconds += c.seconds;
  }
  table.add_wide("sum, of a rank in a step", numbers(sum));
  fmt::print("\n");
  table.print();
}

// Prints one line for each group of ranks that hold the same layers: the computing time, and for
// each axis of the mesh the bytes on the wire, T_sync and its exposed part.
void print_traffic(const analysis::JobPlan& plan) {
  std::vector<terminal::Column> columns = {{"ranks"}, {"T_comp ms", Kind::kNumber}};
  for (int axis = 0; axis < parallel::kAxes; ++axis) {
    if (plan.mesh.degree(axis) <= 1) continue;
    columns.push_back({fmt::format("{}: bytes", parallel::kAxisNames[axis]), Kind::kNumber});
    columns.push_back({"T_sync ms", Kind::kNumber, 1});
    columns.push_back({"exposed ms", Kind::kNumber, 2});
  }
  Table table(std::move(columns));
  for (size_t i = 0; i < plan.roles.size(); ++i) {
    const parallel::RankPrediction& p = plan.prediction.ranks[i];
    std::vector<std::string> row = {numbers(plan.roles[i].ranks),
                                    fmt::format("{:.3f}", p.compute * 1e3)};
    for (int axis = 0; axis < parallel::kAxes; ++axis) {
      if (plan.mesh.degree(axis) <= 1) continue;
      row.push_back(fmt::format("{:.0f}", p.wire_bytes[axis]));
      row.push_back(fmt::format("{:.3f}", p.sync[axis] * 1e3));
      row.push_back(fmt::format("{:.3f}", p.exposed[axis] * 1e3));
    }
    table.add(std::move(row));
  }
  fmt::print("\n");
  table.print();
}

// How the times of a plan came about, by JobPlan::Times: as T_comp(B) says it, and for the whole.
constexpr std::pair<const char*, const char*> kSources[] = {
    {"estimated", "estimated, not measured"},
    {"measured", "measured, operation by operation"},
    {"computed", "computed from [cluster]: the least time of each operation"}};
static_assert(std::size(kSources) == static_cast<size_t>(analysis::JobPlan::Times::kComputed) + 1);

void print_prediction(const config::Config& config, const analysis::Planner& planner,
                      const analysis::JobPlan& plan) {
  const parallel::StepTimes& t = plan.prediction.times;
  const std::string id = planner.device->id();
  if (t.compute <= 0) {
    say("\n{} does not estimate times and device.tune is \"off\", so T_comp is unknown; T_sync "
        "{:.3f} ms\nnext: runtime bench CONFIG --nproc {}\n",
        id, t.sync * 1e3, t.ranks);
    return;
  }
  const auto& [alone, how] = kSources[static_cast<size_t>(plan.source)];
  const std::string device = planner.sheet
                                 ? fmt::format("a device of {} TFLOP/s and {} TB/s",
                                               config.cluster.tflops, config.cluster.memory_tbps)
                                 : id;
  if (t.ranks == 1) {
    say("\nprediction: {:.3f} ms a step on {} ({})\n", t.step() * 1e3, device, how);
    return;
  }
  parallel::Explanation e;
  e.times = t;
  e.mesh = plan.mesh;
  e.global_batch = config.training.global_batch_size;
  e.alone = alone;
  say("\nprediction: computing as {}{} ({})\n{}\n", device,
      planner.sheet ? "" : " with its threads, none of them shared", how, parallel::explain(e));
}

std::string text_of(const parallel::Link& link) {
  return fmt::format("latency {:.1f} us, bandwidth {:.1f} Gbit/s", link.latency_s * 1e6,
                     link.bytes_per_second * 8e-9);
}

void print_links(const parallel::Cluster& cluster, int ranks, const std::string& backend) {
  say("\nlink ({}): {}{}\n", backend, text_of(cluster.inside),
      cluster.inside.in_background ? "" : ", idle while the rank computes");
  if (cluster.node_of(ranks - 1) > 0)
    say("network between {} nodes of {} ranks, for each rank: {}\n", cluster.node_of(ranks - 1) + 1,
        cluster.ranks_per_node, text_of(cluster.between));
}

// Prints the table of parallelism.search.
void print_candidates(const std::vector<analysis::Candidate>& candidates) {
  Table table({{"mesh"},
               {"zero", Kind::kNumber, 3},
               {"of a rank", Kind::kNumber, 2},
               {"ms a step", Kind::kNumber},
               {"samples/s", Kind::kNumber, 4},
               {"bubble", Kind::kNumber, 1},
               {"why not"}});
  std::map<std::string, int> unplanned;  // meshes, by the reason
  for (const analysis::Candidate& c : candidates) unplanned[c.reason] += c.plan.roles.empty();
  for (const analysis::Candidate& c : candidates) {
    const bool planned = !c.plan.roles.empty();
    int& alike = unplanned[c.reason];
    if (!planned && alike != 1) {
      if (alike > 1)
        table.add({fmt::format("{} meshes", alike), "-", "-", "-", "-", "-", c.reason});
      alike = 0;
      continue;
    }
    const parallel::StepTimes& t = c.plan.prediction.times;
    const double rate = static_cast<double>(c.config.training.global_batch_size) / t.step();
    table.add({to_string(c.mesh), planned ? std::to_string(c.config.parallelism.zero_stage) : "-",
               planned ? mib(c.plan.peak()) : "-",
               planned && t.compute > 0 ? fmt::format("{:.3f}", t.step() * 1e3) : "-",
               planned && t.compute > 0 ? fmt::format("{:.{}f}", rate, rate < 100 ? 2 : 0) : "-",
               planned && t.compute > 0 ? fmt::format("{:.3f}", t.bubble()) : "-", c.reason});
  }
  table.print();
  const analysis::Candidate& best = analysis::best_of(candidates);
  say("\nproposed: {}\n\n", analysis::chosen_keys(best.config));
}

// The number of ranks that are planned.
int ranks_of(const PlanArguments& arguments, const config::Cluster& cluster) {
  const int described = cluster.ranks(), asked = arguments.world_size;
  if (described > 0 && asked > described)
    throw ConfigurationError(fmt::format(
        "--world-size {}: cluster.nodes = {} with cluster.devices_per_node = {} have {} devices; "
        "give at most {} ranks, or more nodes",
        asked, cluster.nodes, cluster.devices_per_node, described, described));
  return asked > 0 ? asked : std::max(1, described);
}

void plan_ranks(const launch::Rank& rank, const PlanArguments& arguments) {
  config::Config config = rank.config;
  const int ranks = ranks_of(arguments, config.cluster);
  const auto device = launch::open_device(config, *rank.registry, 0, nullptr);
  const data::DatasetPair data =
      train::open_data(config, std::getenv("RUNTIME_DATA_PATH"), rank.registry.get());
  const launch::PlannedRanks planned = launch::planned_ranks(*rank.registry, config.comm.backend);
  const auto fallback = launch::open_fallback(config, *rank.registry, *device, 0);
  analysis::Planner planner = session::make_planner(config, data, device, fallback, planned);
  planner.sheet = analysis::sheet_of(config.cluster);
  planner.cluster = analysis::cluster_of(config.cluster, planned.link);
  if (config.cluster.ranks() > 0) planner.share_device = false;
  if (config.parallelism.search && ranks > 1) {
    const std::vector<analysis::Candidate> candidates =
        analysis::search(config, ranks, planner, session::search_progress());
    print_candidates(candidates);
    config = analysis::best_of(candidates).config;
  }
  config = step::resolve_ranks(config, ranks);
  analysis::JobPlan plan = planner.plan(config, ranks);
  train::StepPrograms programs(train::RankSetup(
      config, planner.spec, device, planner.rank_options(), planner.planned_rank(0, ranks)));
  if (arguments.passes || !arguments.dump_graph.empty()) show_passes(programs, arguments);
  const std::string which = ranks == 1 ? "" : fmt::format(", rank 0 of {}", ranks);
  const exec::Program& program = print_rank(programs, which);
  print_buffers(program.memory());
  if (planner.sheet) show_kernels(programs, *planner.sheet);
  for (const std::string& note : plan.notes) say("note: {}\n", note);
  print_roles(plan);
  const bool is_measured = plan.source == analysis::JobPlan::Times::kMeasured;
  for (const analysis::RolePlan& role : plan.roles)
    if (fallback != nullptr) print_fallback(role, fallback->id(), is_measured);
  if (ranks > 1) {
    print_links(planner.cluster, ranks, planned.backend);
    print_collectives(plan.prediction.ranks[0], planner.cluster.node_of(ranks - 1) > 0);
    if (step::is_asynchronous(config, ranks)) return;
    print_traffic(plan);
    planner.predict_alone(config, plan);
  }
  print_prediction(config, planner, plan);
}

}  // namespace

void run_plan(const PlanArguments& arguments) {
  config::Config config = arguments.config.load();
  config.launch.ranks = 1;
  launch::run_ranks(config, host_services(), {},
                    [&](launch::Rank& rank) { plan_ranks(rank, arguments); });
}

}  // namespace runtime::cli
