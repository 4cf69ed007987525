// Reads the configuration as the setup of one rank: types, training, strategy.
#include "runtime/train/rank/rank_setup.h"

#include <algorithm>

#include "runtime/config/choices.h"
#include "runtime/error.h"
#include "runtime/model/layer_types.h"
#include "runtime/row_of.h"
#include "runtime/step/compile_step.h"
#include "runtime/step/make_strategy.h"
#include "runtime/step/ranks.h"
#include "runtime/train/metrics/validation_metrics.h"
#include "runtime/train/options.h"

namespace runtime::train {

namespace {

using step::Purpose;
using step::StepForm;

rt_dtype to_dtype(const std::string& name) {
  return row_of<rt_dtype>("training.dtype", name,
                          {{"float32", RT_FLOAT32}, {"float64", RT_FLOAT64}});
}

// The type of activations; 0 without mixed precision. What the device does not compute in it, its
// fallback may (null: there is none).
rt_dtype activation_type(const config::Training& training, plugins::host::Device& device,
                         const plugins::host::Device* fallback) {
  const rt_dtype dtype =
      row_of<rt_dtype>("training.mixed_precision", training.mixed_precision,
                       {{"none", 0}, {"f16", RT_FLOAT16}, {"bf16", RT_BFLOAT16}});
  if (dtype == 0) return 0;
  for (const plugins::host::Device* d :
       {static_cast<const plugins::host::Device*>(&device), fallback}) {
    if (d != nullptr && (d->properties().compute_dtypes & RT_DTYPE_BIT(dtype)) != 0) return dtype;
  }
  // What the device says about a product in this type.
  const rt_tensor_desc matrix = plugins::host::make_tensor_desc(dtype, {16, 16});
  plugins::host::Operation product;
  product.name = RT_OP_MATMUL;
  product.inputs = {matrix, matrix};
  product.outputs = {matrix};
  const std::string reason = device.query(product).reason;
  throw DeviceError(
      "training.mixed_precision = \"" + training.mixed_precision + "\": " + device.id() + " (" +
      device.properties().name + ") does not compute in " +
      (dtype == RT_FLOAT16 ? "float16" : "bfloat16") + (reason.empty() ? "" : " (" + reason + ")") +
      "; use another device.backend or a device.host_fallback that does (runtime devices "
      "lists their types), or mixed_precision = \"none\"");
}

constexpr uint64_t kUnlimited = uint64_t{1} << 53;  // bytes of a buffer, exact as a double

// Sets what every rank must know alike of the devices of all ranks.
void agree_on_devices(step::RankOfJob& rank, plugins::host::Device& device,
                      exec::Collectives* collectives) {
  double largest[] = {static_cast<double>(device.properties().alignment),
                      -static_cast<double>(device.memory_info().total_bytes),
                      -static_cast<double>(std::min(device.largest_buffer(), kUnlimited))};
  if (collectives != nullptr) collectives->all_reduce(largest, 3, RT_MAX);
  rank.alignment = static_cast<uint64_t>(largest[0]);
  rank.least_memory = static_cast<uint64_t>(-largest[1]);
  const auto buffer = static_cast<uint64_t>(-largest[2]);
  if (buffer < kUnlimited) rank.largest_buffer = buffer;
}

step::TrainingSpec make_training_spec(const config::Config& config, const data::SampleSpec& spec) {
  step::TrainingSpec r;
  const config::Loss& loss = resolve_loss(config.training, spec);
  r.loss = {loss.name, loss.of_classes(), config.training.label_smoothing,
            attributes_of(loss, config.training)};
  r.classes = spec.classes;
  r.labels = spec.labels;
  r.targets = spec.targets;
  r.vocabulary = spec.vocabulary;
  for (const data::SampleInput& input : spec.inputs)
    r.inputs.push_back({input.name, input.shape, input.integers, input.least, input.most});
  r.optimizer = config.optimizer;
  r.max_norm = config.training.max_norm;
  r.max_value = config.training.max_value;
  r.freeze = config.model.freeze;
  r.seed = config.debug.seed;
  return r;
}

step::RankOfJob rank_of_job(plugins::host::Device& device, exec::Collectives* collectives,
                            const std::optional<PlannedRank>& planned) {
  step::RankOfJob rank;
  if (planned) {
    rank.rank = planned->rank;
    rank.world_size = planned->world_size;
    rank.only_planned = true;
    rank.stages = planned->stages;
    collectives = nullptr;
  } else if (collectives != nullptr) {
    rank.rank = collectives->rank();
    rank.world_size = collectives->world_size();
  }
  agree_on_devices(rank, device, collectives);
  if (planned && planned->memory > 0) rank.least_memory = planned->memory;
  return rank;
}

}  // namespace

const config::Loss& resolve_loss(const config::Training& training, const data::SampleSpec& spec) {
  const bool classes = spec.classes > 0;
  const config::Loss& loss = config::loss_of(training.loss, classes);
  if (loss.of_classes() == classes) return loss;
  throw ConfigurationError("training.loss = \"" + training.loss +
                           "\" does not fit a data set for " +
                           (classes ? "classification" : "regression") + "; use \"" +
                           config::loss_of("auto", classes).name + "\" or \"auto\"");
}

void check_model(const config::Config& config, const data::SampleSpec& spec) {
  const model::Model model = model::model_from_config(config.model);
  check_input(model.input, spec);
  check_metrics(config.validation.metrics, spec);
  step::build_step({model, make_training_spec(config, spec), {}, {.purpose = Purpose::kGradients}});
}

RankSetup::RankSetup(const config::Config& of, const data::SampleSpec& samples,
                     std::shared_ptr<plugins::host::Device> on, const exec::CompileOptions& compile,
                     const std::optional<PlannedRank>& plan)
    : config(of),
      spec(samples),
      device(std::move(on)),
      options(compile),
      model(model::model_from_config(config.model)),
      training(make_training_spec(config, spec)),
      has_batch_norm(step::has_batch_norm(model)),
      planned(plan.has_value()) {
  const step::Precision precision{
      to_dtype(config.training.dtype),
      activation_type(config.training, *device, options.target.fallback.get())};
  check_input(model.input, spec);
  check_metrics(config.validation.metrics, spec);
  data::check_label_weights(label_weights(config), spec);
  strategy = step::make_strategy(config, model, training, precision,
                                 rank_of_job(*device, options.collectives, plan));
}

StepForm RankSetup::whole(Purpose purpose, int64_t rows) const {
  return step::whole_form(strategy, has_batch_norm, purpose, rows);
}

StepForm RankSetup::form_with_parameters() const {
  if (inference) return whole(Purpose::kEvaluation, config.training.global_batch_size);
  // In asynchronous training the owners update the parameters.
  return whole(
      step::is_asynchronous(config, world_size()) ? Purpose::kMicroStep : Purpose::kTraining,
      nominal_rows());
}

int64_t RankSetup::nominal_rows() const {
  return step::nominal_rows(strategy.batch, config.training.global_batch_size, rank());
}

std::vector<double> RankSetup::maximum(std::vector<double> values) const {
  if (collectives() != nullptr) collectives()->all_reduce(values.data(), values.size(), RT_MAX);
  return values;
}

}  // namespace runtime::train
