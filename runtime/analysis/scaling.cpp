// Measures collectives alone, gathers the times of all ranks, and compares them with the plan.
#include "runtime/analysis/scaling.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "runtime/median.h"
#include "runtime/system/available_memory.h"
#include "runtime/train/rank/step_programs.h"

namespace runtime::analysis {

namespace {

using nlohmann::ordered_json;
using parallel::ByAxis;
using system::mib;

constexpr double kMeasuredSeconds = 0.2;
constexpr double kMostRounds = 20;

// Seconds of one round of collectives: the median over rounds of the slowest rank. All ranks run
// the same number of rounds.
double sync_seconds(train::StepPrograms& programs, int communicator) {
  const auto round = [&] {
    programs.setup().maximum({0});  // so that all ranks begin together
    const auto begin = std::chrono::steady_clock::now();
    for (const step::StepForm& form : train::full_step(programs))
      programs.compiled(form).program->run_collectives(programs.stream(), communicator);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return elapsed.count();
  };
  round();
  const double first = programs.setup().maximum({round()})[0];
  std::vector<double> times(
      static_cast<size_t>(std::clamp(kMeasuredSeconds / first, 1.0, kMostRounds)));
  for (double& t : times) t = round();
  return median(programs.setup().maximum(std::move(times)));
}

ByAxis sync_by_axis(const config::Config& config, train::StepPrograms& programs) {
  const parallel::Mesh& mesh = programs.setup().strategy.mesh;
  ByAxis seconds{};
  for (int c = 0; c < parallel::kCommunicators; ++c) {
    const bool absent =
        (c == parallel::kStatisticsCommunicator && !config.parallelism.sync_batch_norm) ||
        (c > parallel::kPipelineCommunicator && mesh.replicas() == 1);
    if (!absent && mesh.members(c, programs.setup().options.collectives->rank()).size() > 1)
      seconds[parallel::axis_of(c)] += sync_seconds(programs, c);
  }
  return seconds;
}

// The items of all ranks, on every rank.
template <class Item>
std::vector<Item> gather(const Item& own, exec::Collectives* collectives) {
  std::vector<Item> all(collectives == nullptr ? 1 : collectives->world_size(), own);
  if (collectives != nullptr) collectives->all_gather(&own, all.data(), sizeof(own));
  return all;
}

parallel::StepTimes mean_times(const train::StepCost& cost, int ranks,
                               exec::Collectives* collectives) {
  double sums[] = {cost.seconds - cost.all_exposed(), cost.exposed[0], cost.exposed[1],
                   cost.exposed[2]};
  if (collectives != nullptr) collectives->all_reduce(sums, std::size(sums), RT_SUM);
  parallel::StepTimes t;
  t.ranks = ranks;
  t.compute = sums[0] / ranks;
  for (int axis = 0; axis < parallel::kAxes; ++axis) {
    t.exposed_by_axis[axis] = sums[axis + 1] / ranks;
    t.exposed += t.exposed_by_axis[axis];
  }
  return t;
}

ordered_json by_axis(const ByAxis& seconds) {
  ordered_json j;
  for (int axis = 0; axis < parallel::kAxes; ++axis)
    j[parallel::kAxisNames[axis]] = seconds[axis] * 1e3;
  return j;
}

ordered_json memory_json(const Scaling& s) {
  ordered_json list = ordered_json::array();
  for (const RolePlan& role : s.plan.roles) {
    for (int rank : role.ranks) {
      const RankMemory& m = s.used[rank];
      list.push_back({{"rank", rank},
                      {"planned_bytes", role.memory.total()},
                      {"allocated_bytes", s.allocated[rank]},
                      {"parameters", m.parameters},
                      {"gradients", m.gradients},
                      {"state", m.state},
                      {"packed", m.packed},
                      {"arena", m.arena}});
    }
  }
  return list;
}

}  // namespace

Scaling measure_scaling(const config::Config& config, train::StepPrograms& programs,
                        exec::Collectives* collectives, const std::string& backend,
                        const train::StepCost& cost, const Planner& planner) {
  Scaling s;
  s.backend = backend;
  s.global_batch = config.training.global_batch_size;
  s.shares_by_speed = config.parallelism.by_speed();
  s.used = gather(memory_of(programs), collectives);
  s.allocated = gather(planner.device->memory_info().allocated_bytes, collectives);
  const int ranks = static_cast<int>(s.used.size());
  s.measured = mean_times(cost, ranks, collectives);
  if (ranks > 1) s.measured.sync_by_axis = sync_by_axis(config, programs);
  for (double seconds : s.measured.sync_by_axis) s.measured.sync += seconds;
  return s;
}

void add_plan(Scaling& s, const config::Config& config, const Planner& planner) {
  const int ranks = static_cast<int>(s.used.size());
  s.plan = planner.plan(config, ranks);
  if (ranks > 1) planner.predict_alone(config, s.plan);
  const parallel::StepTimes& t = s.plan.prediction.times;
  if (t.compute <= 0) return;
  s.predicted = t;
  s.measured.compute_alone = s.measured.compute * t.compute_alone / t.compute;
}

std::string explain(const Scaling& scaling) {
  parallel::Explanation e;
  e.times = scaling.measured;
  e.mesh = scaling.plan.mesh;
  e.global_batch = scaling.global_batch;
  e.alone = "estimated from T_comp and the plan";
  e.predicted = scaling.predicted;
  e.shares_by_speed = scaling.shares_by_speed;
  return parallel::explain(e);
}

std::string explain_memory(const Scaling& s) {
  std::string text;
  for (const RolePlan& role : s.plan.roles) {
    const auto more = [&](int a, int b) { return s.allocated[a] < s.allocated[b]; };
    const int rank = *std::max_element(role.ranks.begin(), role.ranks.end(), more);
    const RankMemory& m = s.used[rank];
    text += (text.empty() ? "" : "\n") + ("memory of rank " + std::to_string(rank)) + ": " +
            mib(s.allocated[rank]) + " allocated, planned " + mib(role.memory.total()) +
            " (parameters " + mib(m.parameters) + ", gradients " + mib(m.gradients) + ", state " +
            mib(m.state) + ", packed " + mib(m.packed) + ", activations and workspace " +
            mib(m.arena) + ")";
  }
  return text;
}

std::string to_json(const Scaling& scaling) {
  const parallel::StepTimes& t = scaling.measured;
  const parallel::Mesh& mesh = scaling.plan.mesh;
  const bool known = t.compute_alone > 0;
  const auto number = [](bool has, double value) {
    return has ? ordered_json(value) : ordered_json(nullptr);
  };
  ordered_json j;
  j["ranks"] = t.ranks;
  j["mesh"] = {{"data", mesh.data}, {"tensor", mesh.tensor}, {"pipeline", mesh.pipeline}};
  j["backend"] = scaling.backend;
  j["global_batch_size"] = scaling.global_batch;
  j["step_ms"] = t.step() * 1e3;
  j["t_comp_ms"] = t.compute * 1e3;
  j["t_comp_alone_ms"] = number(known, t.compute_alone * 1e3);
  j["t_sync_ms"] = t.sync * 1e3;
  j["t_sync_ms_by_axis"] = by_axis(t.sync_by_axis);
  j["exposed_t_sync_ms"] = t.exposed * 1e3;
  j["exposed_t_sync_ms_by_axis"] = by_axis(t.exposed_by_axis);
  j["bubble"] = t.bubble();
  j["speed_up"] = number(known, t.speed_up());
  j["efficiency"] = number(known, t.efficiency());
  const bool predicted = scaling.predicted.has_value();
  const parallel::StepTimes p = scaling.predicted.value_or(parallel::StepTimes{});
  j["predicted_step_ms"] = number(predicted, p.step() * 1e3);
  j["predicted_t_comp_ms"] = number(predicted, p.compute * 1e3);
  j["predicted_exposed_t_sync_ms_by_axis"] = by_axis(p.exposed_by_axis);
  j["predicted_bubble"] = number(predicted, p.bubble());
  j["predicted_efficiency"] = number(predicted && known, p.efficiency());
  if (known) j["pays"] = t.pays();
  if (mesh.tensor * mesh.pipeline == 1) j["pays_per_rank"] = t.pays_per_rank();
  j["memory"] = memory_json(scaling);
  return j.dump();
}

}  // namespace runtime::analysis
