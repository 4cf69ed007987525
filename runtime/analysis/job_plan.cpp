// Makes the programs of each kind of rank without memory, and predicts the job's step.
#include "runtime/analysis/job_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "plugins/host/error.h"
#include "runtime/analysis/profile.h"
#include "runtime/error.h"
#include "runtime/exec/encode.h"
#include "runtime/graph/host_operations.h"
#include "runtime/model/layer_types.h"
#include "runtime/parallel/efficiency.h"
#include "runtime/step/ranks.h"
#include "runtime/train/checkpoint/rank_state.h"
#include "runtime/train/rank/step_programs.h"

namespace runtime::analysis {

namespace {

// "wte to h.2" for each stage, in stage order.
std::string layers_of(const train::StepProgram& p) {
  std::map<int, std::pair<std::string, std::string>> ends;  // by stage
  for (const graph::Node& node : p.program->graph().nodes) {
    if (node.phase != graph::Phase::kForward || node.collective) continue;
    const bool staged = p.values.pipeline && node.origin != graph::kNone;
    const int stage = staged ? p.values.pipeline->stages.of(node) : 0;
    const auto it = ends.try_emplace(stage, node.layer, node.layer).first;
    // The nodes of later micro-batches begin with the first layer again.
    if (it->second.first != node.layer && !node.layer.empty()) it->second.second = node.layer;
  }
  std::string text;
  for (const auto& [stage, names] : ends)
    text += (text.empty() ? "" : ", ") + names.first + " to " + names.second;
  return text;
}

double pass_seconds(const graph::Graph& graph) {
  double ns = 0;
  for (const graph::Node& node : graph.nodes) {
    const bool in_pass =
        node.phase == graph::Phase::kForward || node.phase == graph::Phase::kBackward;
    if (in_pass && !node.collective) ns += std::max(0.0, node.estimated_ns);
  }
  return ns * 1e-9;
}

class RolePlanner {
 public:
  RolePlanner(const Planner& planner, const config::Config& config, train::PlannedRank rank)
      : planner_(planner),
        programs_(
            train::RankSetup(config, planner.spec, planner.device, planner.rank_options(), rank)),
        keys_(step::is_asynchronous(config, rank.world_size)
                  ? std::vector<step::StepForm>{programs_.setup().whole(
                        step::Purpose::kMicroStep, programs_.setup().nominal_rows())}
                  : train::full_step(programs_)) {
    programs_.any_compiled();
    for (const step::StepForm& key : keys_) programs_.compiled(key);
    if (planner.evaluates)
      programs_.compiled(
          programs_.setup().whole(step::Purpose::kEvaluation, config.training.global_batch_size));
  }

  RolePlan describe() {
    RolePlan role;
    role.memory = memory_of(programs_);
    if (programs_.setup().config.checkpoint.any())
      role.checkpoint_bytes = train::most_written_bytes(programs_.rank_model());
    role.layers = layers_of(programs_.compiled(keys_.back()));
    for (const step::StepForm& key : keys_)
      role.flops += graph::step_flops(programs_.compiled(key).program->graph(), 1);
    return role;
  }

  // Whether the device has room for these programs now.
  bool has_room() {
    return memory_of(programs_).total() <= planner_.device->memory_info().free_bytes;
  }

  // Measures what no program of the planner has measured yet.
  void measure() {
    for (const step::StepForm& key : keys_) {
      if (input_seconds_.contains(key)) continue;  // another micro-step with the same program
      train::StepProgram& p = programs_.compiled(key);
      exec::NodeTimes& known = *planner_.times;
      const std::string upload = "upload of " + std::to_string(p.input_bytes) + " bytes";
      const auto seconds = known.find(upload);
      if (seconds != known.end() && p.program->take_times(known)) {
        input_seconds_[key] = seconds->second;
        continue;
      }
      take_memory();
      // With a factor of 0 an optimizer would skip the update.
      if (void* const one = p.address(p.values.one))
        exec::write_memory(programs_.stream(), one, exec::encode({1.0}, programs_.setup().dtype()));
      const data::Batch zeros = data::zero_batch(
          planner_.spec, key.rows * programs_.setup().strategy.batch.shards_of_rank());
      input_seconds_[key] = p.program->measure(
          programs_.stream(), [&] { programs_.upload(p, zeros, 0, 0, 0); }, known);
      known.emplace(upload, input_seconds_[key]);
    }
  }

  // The graphs of a step, whose nodes have their times.
  std::vector<std::shared_ptr<const graph::Graph>> graphs() {
    std::map<step::StepForm, std::shared_ptr<const graph::Graph>> of;
    std::vector<std::shared_ptr<const graph::Graph>> list;
    for (const step::StepForm& key : keys_) {
      std::shared_ptr<const graph::Graph>& graph = of[key];
      if (graph == nullptr) graph = planner_.sheet ? with_computed_times(key) : with_input(key);
      list.push_back(graph);
    }
    return list;
  }

  void add_fallback(RolePlan& role, bool measured) {
    std::set<const exec::Program*> known;  // several micro-steps may run one program
    for (const step::StepForm& key : keys_) {
      const exec::Program& program = *programs_.compiled(key).program;
      add_fallback_uses(program, measured, role.fallback);
      if (known.insert(&program).second) role.fallback_bytes += program.fallback().bytes();
    }
  }

  const std::vector<std::string>& notes() const { return programs_.notes(); }
  const std::vector<parallel::StagedLayer>& stages() const {
    return programs_.setup().strategy.pipeline.stages;
  }

 private:
  void take_memory() {
    if (has_memory_) return;
    programs_.rank_model().storage().materialise();
    programs_.arena().materialise();
    has_memory_ = true;
  }

  // Returns the graph with the copy of the batch to the device as its first node.
  std::shared_ptr<const graph::Graph> with_input(const step::StepForm& key) {
    auto graph = std::make_shared<graph::Graph>(programs_.compiled(key).program->graph());
    graph::Node input;
    input.op = "input";
    input.estimated_ns = input_seconds_[key] * 1e9;
    graph->nodes.insert(graph->nodes.begin(), std::move(input));
    return graph;
  }

  // Returns the graph with the least time of each operation on the device of the sheet.
  std::shared_ptr<const graph::Graph> with_computed_times(const step::StepForm& key) {
    const exec::Program& program = *programs_.compiled(key).program;
    auto graph = std::make_shared<graph::Graph>(program.graph());
    for (size_t i = 0; i < graph->nodes.size(); ++i) {
      graph::Node& node = graph->nodes[i];
      if (node.on_fallback) continue;
      node.estimated_ns = 0;
      if (!graph::has_kernel(node) || program.is_kept_right(i)) continue;
      for (const plugins::host::KernelWork& work : program.kernel(i).work())
        node.estimated_ns += 1e9 * planner_.sheet->limits.seconds(work.flops, work.bytes);
      if (node.estimated_ns > 0) continue;
      const NodeCost cost = cost_of(program, i);
      node.estimated_ns = 1e9 * planner_.sheet->limits.seconds(cost.flops, cost.bytes);
    }
    return graph;
  }

  const Planner& planner_;
  train::StepPrograms programs_;
  std::vector<step::StepForm> keys_;
  std::map<step::StepForm, double>
      input_seconds_;  // seconds of the upload, by step form, if measured
  bool has_memory_ = false;
};

void add_notes(const std::vector<std::string>& more, std::vector<std::string>& notes) {
  for (const std::string& note : more) {
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }
}

}  // namespace

uint64_t JobPlan::peak() const {
  uint64_t bytes = 0;
  for (const RolePlan& role : roles) bytes = std::max(bytes, role.memory.total());
  return bytes;
}

RankMemory memory_of(train::StepPrograms& programs) {
  const exec::MemoryReport& report = programs.any_compiled().program->memory();
  RankMemory m;
  for (const exec::BufferInfo& b : report.buffers) {
    if (b.kind == graph::ValueKind::kState && b.name.find("gradients") != std::string::npos)
      m.gradients += b.bytes;
  }
  m.parameters = report.parameters;
  m.packed = report.packed;
  m.largest_workspace = report.largest_workspace;
  m.arena = programs.arena().bytes() +
            exec::Upload::device_bytes(*programs.setup().device, programs.most_input_bytes());
  // `state` includes the buffers that only programs of other step forms use.
  m.state = programs.rank_model().storage().total_bytes() - m.parameters - m.packed - m.gradients;
  return m;
}

exec::CompileOptions Planner::rank_options() const {
  exec::CompileOptions rank = options;
  rank.collectives = nullptr;
  if (sheet) rank.target.tune = exec::Tune::kOff;
  return rank;
}

train::PlannedRank Planner::planned_rank(int rank, int world_size) const {
  return {rank, world_size, {}, sheet ? sheet->memory : 0};
}

JobPlan Planner::plan(const config::Config& config, int world_size) const {
  JobPlan result;
  result.mesh = step::mesh_of(config.parallelism, world_size);
  const uint64_t memory = device->memory_info().total_bytes;
  result.memory_limit = sheet && sheet->memory > 0 ? sheet->memory
                        : share_device && !sheet   ? memory / world_size
                                                   : memory;
  bool measured = !sheet && options.target.tune != exec::Tune::kOff;
  parallel::StepGraphs graphs;
  std::vector<parallel::StagedLayer> stages;  // the same for all roles
  for (int place = 0; place < result.mesh.pipeline; ++place) {
    const int first = result.mesh.rank_of({0, 0, place});
    train::PlannedRank rank = planned_rank(first, world_size);
    rank.stages = stages;
    RolePlanner planner(*this, config, rank);
    stages = planner.stages();
    RolePlan role = planner.describe();
    for (int i = 0; i < result.mesh.data * result.mesh.tensor; ++i) role.ranks.push_back(first + i);
    measured = measured && planner.has_room();
    if (measured) planner.measure();
    planner.add_fallback(role, measured);
    graphs.push_back(planner.graphs());
    for (const auto& graph : graphs.back()) role.pass_seconds += pass_seconds(*graph);
    result.roles.push_back(std::move(role));
    add_notes(planner.notes(), result.notes);
  }
  using Times = JobPlan::Times;
  result.source = sheet ? Times::kComputed : measured ? Times::kMeasured : Times::kEstimated;
  result.prediction = parallel::predict(graphs, result.mesh, cluster);
  return result;
}

void Planner::predict_alone(const config::Config& config, JobPlan& of) const {
  config::Config alone = config;
  alone.parallelism = {};
  const JobPlan one = plan(alone, 1);
  // An estimate and a measurement cannot be compared.
  if (one.source == of.source) of.prediction.times.compute_alone = one.prediction.times.compute;
}

}  // namespace runtime::analysis
