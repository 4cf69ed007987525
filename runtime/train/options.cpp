// Translates sections of the configuration into the options of other rooms.
#include "runtime/train/options.h"

#include <algorithm>

#include "runtime/config/choices.h"
#include "runtime/error.h"
#include "runtime/system/control_groups.h"

namespace runtime::train {

int threads_of_rank(const config::Config& config) {
  return std::max(1,
                  config.device.threads > 0 ? config.device.threads : system::usable_processors());
}

void check_input(const std::vector<int64_t>& input, const data::SampleSpec& spec) {
  std::vector<int64_t> given = spec.shape;
  if (given.size() == 3) given = {given[2], given[0], given[1]};
  if (given == input) return;
  throw ConfigurationError("model.input is " + graph::to_string(input) +
                           ", the data set has samples of " + graph::to_string(given) +
                           "; set model.input, or dataset.resize for images");
}

exec::CompileOptions compile_options(const config::Config& config,
                                     std::shared_ptr<plugins::host::Device> fallback) {
  exec::CompileOptions o;
  o.target.tune = row_of<exec::Tune>(
      "device.tune", config.device.tune,
      {{"off", exec::Tune::kOff}, {"quick", exec::Tune::kQuick}, {"full", exec::Tune::kFull}});
  o.target.deterministic = config.debug.deterministic;
  o.target.cache_folder = exec::default_cache_folder();
  o.target.fallback = std::move(fallback);
  o.record = config.device.graph_capture;
  return o;
}

data::LabelWeights label_weights(const config::Config& config) {
  const bool masked = config::task_of(config.dataset).masked;
  return {config.training.class_weights, static_cast<int32_t>(config.training.ignore_label),
          masked ? data::TokenMasking::kInput : config.training.sample_weights};
}

}  // namespace runtime::train
