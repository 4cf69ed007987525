#include "runtime/train/scaling.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

namespace runtime::train {

namespace {

constexpr double kMeasuredSeconds = 0.2;
constexpr double kMostRounds = 20;

// Median over rounds of the slowest rank. Ranks agree on the number of rounds.
double sync_seconds(Trainer& trainer) {
  const auto round = [&] {
    trainer.maximum({0});  // begin together
    const auto begin = std::chrono::steady_clock::now();
    trainer.run_collectives();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return elapsed.count();
  };
  round();
  const double first = trainer.maximum({round()})[0];
  std::vector<double> times(
      static_cast<size_t>(std::clamp(kMeasuredSeconds / first, 1.0, kMostRounds)));
  for (double& t : times) t = round();
  times = trainer.maximum(std::move(times));
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace

parallel::PredictOptions predict_options(const config::Config& config,
                                         const parallel::BatchSplit& split,
                                         const parallel::Link& link) {
  const int64_t batch = config.training.global_batch_size;
  parallel::PredictOptions o;
  o.ranks = split.world_size;
  o.passes = parallel::micro_steps(batch, split);
  o.share =
      static_cast<double>(parallel::rows_of_rank(batch, split).size()) / static_cast<double>(batch);
  o.sharded_update = config.parallelism.zero_stage > 0;
  o.link = link;
  return o;
}

Scaling measure_scaling(const config::Config& config, Trainer& trainer,
                        exec::Collectives& collectives, const std::string& backend,
                        const StepCost& cost) {
  const parallel::PredictOptions options =
      predict_options(config, trainer.split(), parallel::default_link(backend));
  const graph::Graph& graph = trainer.program().graph();
  double sums[] = {cost.seconds - cost.exposed, cost.exposed,
                   parallel::alone_ratio(graph, options)};
  collectives.all_reduce(sums, std::size(sums), RT_SUM);
  for (double& sum : sums) sum /= options.ranks;
  Scaling s;
  s.backend = backend;
  s.global_batch = config.training.global_batch_size;
  s.measured = {options.ranks, sums[0], sums[0] * sums[2], sync_seconds(trainer), sums[1]};
  const parallel::StepTimes predicted = parallel::predict(graph, options).times;
  if (predicted.compute > 0) s.predicted = predicted;
  return s;
}

std::string explain(const Scaling& scaling) {
  parallel::Explanation e;
  e.times = scaling.measured;
  e.global_batch = scaling.global_batch;
  e.alone = "estimated from T_comp and the plan";
  if (scaling.predicted) e.predicted = scaling.predicted->efficiency();
  return parallel::explain(e);
}

std::string to_json(const Scaling& scaling) {
  const parallel::StepTimes& t = scaling.measured;
  nlohmann::ordered_json j;
  j["ranks"] = t.ranks;
  j["backend"] = scaling.backend;
  j["global_batch_size"] = scaling.global_batch;
  j["step_ms"] = t.step() * 1e3;
  j["t_comp_ms"] = t.compute * 1e3;
  j["t_comp_alone_ms"] = t.compute_alone * 1e3;
  j["t_sync_ms"] = t.sync * 1e3;
  j["exposed_t_sync_ms"] = t.exposed * 1e3;
  j["speed_up"] = t.speed_up();
  j["efficiency"] = t.efficiency();
  j["predicted_efficiency"] = nullptr;
  if (scaling.predicted) j["predicted_efficiency"] = scaling.predicted->efficiency();
  j["pays"] = t.pays();
  j["pays_per_rank"] = t.pays_per_rank();
  return j.dump();
}

double step_flops(const graph::Graph& graph, int64_t passes) {
  double flops = 0;
  for (const graph::Node& node : graph.nodes) {
    const bool once = node.phase == graph::Phase::kUpdate;
    flops += graph::flops(graph, node) * (once ? 1.0 : static_cast<double>(passes));
  }
  return flops;
}

}  // namespace runtime::train
