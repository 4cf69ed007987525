// Counts the FLOPs of products in the graph before any pass repeats them.
#include "runtime/train/model_flops.h"

#include "runtime/graph/operation_set.h"
#include "runtime/step/compile_step.h"
#include "runtime/step/make_strategy.h"

namespace runtime::train {

namespace {

// One of the five products in the backward pass of attention recomputes the scores.
constexpr double kAttentionBackward = 4.0 / 5.0;

double product_flops(const graph::Graph& graph, const graph::Node& node) {
  const graph::Kind kind = kind_of(graph, node);
  if (kind == graph::Kind::kProduct) return graph::flops(graph, node);
  if (kind != graph::Kind::kAttention) return 0;
  return graph::flops(graph, node) * (node.is_backward() ? kAttentionBackward : 1);
}

}  // namespace

double model_flops(const RankSetup& setup) {
  config::Config config = setup.config;
  config.parallelism = {};
  config.debug.deterministic = false;
  const step::Precision precision{setup.dtype(), 0};
  const step::Strategy whole =
      step::make_strategy(config, setup.model, setup.training, precision, {});
  const step::StepForm form{step::Purpose::kGradients, 1};
  const step::Step step = step::build_step({setup.model, setup.training, whole, form});
  double sum = 0;
  for (const graph::Node& node : step.graph.nodes) sum += product_flops(step.graph, node);
  return sum;
}

double model_flops_utilisation(const RankSetup& setup, double flops, double samples_per_second) {
  const double peak = setup.config.device.peak_tflops * 1e12;
  return samples_per_second * flops / (peak * setup.strategy.mesh.size());
}

}  // namespace runtime::train
