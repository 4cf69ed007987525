// Compiles the program of a step form when it first occurs, over buffers that all forms share.
#include "runtime/train/step_programs.h"

#include <algorithm>
#include <cstring>

#include "runtime/config/choices.h"
#include "runtime/error.h"
#include "runtime/exec/encode.h"
#include "runtime/model/layer_types.h"
#include "runtime/row_of.h"
#include "runtime/step/compile_step.h"
#include "runtime/step/make_strategy.h"
#include "runtime/step/ranks.h"
#include "runtime/train/formatted.h"
#include "runtime/train/metrics/validation_metrics.h"
#include "runtime/train/options.h"
#include "runtime/train/weights.h"

namespace runtime::train {

namespace {

using graph::ValueId;
using step::kLossScaling;
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

step::Recipe make_recipe(const config::Config& config, const data::SampleSpec& spec) {
  step::Recipe r;
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
  step::build_step({model, make_recipe(config, spec), {}, {.purpose = Purpose::kGradients}});
}

StepPrograms::StepPrograms(const config::Config& config, const data::SampleSpec& spec,
                           std::shared_ptr<plugins::host::Device> device,
                           const exec::CompileOptions& options,
                           const std::optional<PlannedRank>& planned)
    : config_(config),
      spec_(spec),
      device_(std::move(device)),
      options_(options),
      model_(model::model_from_config(config.model)),
      recipe_(make_recipe(config, spec)),
      stream_(device_->create_stream()),
      storage_(device_, planned.has_value()),
      arena_(device_, planned.has_value()),
      has_batch_norm_(step::has_batch_norm(model_)),
      label_weights_(label_weights(config)) {
  const step::Precision precision{
      to_dtype(config.training.dtype),
      activation_type(config.training, *device_, options_.target.fallback.get())};
  check_input(model_.input, spec);
  check_metrics(config.validation.metrics, spec);
  data::check_label_weights(label_weights_, spec);
  strategy_ = step::make_strategy(config, model_, recipe_, precision,
                                  rank_of_job(*device_, options.collectives, planned));
  if (config.debug.deterministic && has_batch_norm_ && world_size() > 1) {
    notes_.push_back(
        "debug.deterministic implies parallelism.sync_batch_norm: batch_norm normalises over the "
        "global batch, so that the bits do not depend on the number of ranks");
  }
}

StepForm StepPrograms::whole(Purpose purpose, int64_t rows) const {
  return step::whole_form(strategy_, has_batch_norm_, purpose, rows);
}

const std::vector<StepForm>& StepPrograms::forms(Purpose purpose, const data::Batch& batch) {
  const bool padded = batch.valid < batch.rows;
  const auto [known, is_new] = forms_.try_emplace({purpose, batch.global_rows, batch.rows, padded});
  std::vector<StepForm>& forms = known->second;
  if (!is_new) return forms;
  const int64_t steps = parallel::micro_steps(batch.global_rows, strategy_.batch);
  StepForm form = whole(purpose, batch.rows / (steps * strategy_.batch.shards_of_rank()));
  form.split_batch_norm |= has_batch_norm_ && padded;
  form.l2_share /= static_cast<double>(steps);
  forms.assign(steps, form);
  for (int64_t i = 0; i < steps; ++i) {
    forms[i].accumulate = i > 0;
    if (i + 1 < steps) forms[i].purpose = Purpose::kMicroStep;
  }
  return forms;
}

const std::vector<StepForm>& StepPrograms::training_step(int64_t global_rows,
                                                         int64_t global_valid) {
  data::Batch batch;
  batch.global_rows = global_rows;
  const std::vector<int64_t> rows = parallel::rows_of_rank(global_rows, strategy_.batch);
  batch.rows = static_cast<int64_t>(rows.size());
  batch.valid = std::count_if(rows.begin(), rows.end(), [&](int64_t position) {
    return position >= 0 && position < global_valid;
  });
  return forms(Purpose::kTraining, batch);
}

const std::vector<StepForm>& StepPrograms::full_step() {
  return training_step(config_.training.global_batch_size, config_.training.global_batch_size);
}

StepProgram& StepPrograms::compiled(const StepForm& form, const step::AfterPass& after) {
  const auto it = programs_.find(form);
  if (it != programs_.end()) return it->second;
  StepProgram p;
  const bool loss_scaled = storage_.find(kLossScaling) != nullptr;
  // Nothing else runs while candidates are measured, and a larger arena would replace the one that
  // queued work still uses.
  stream_.synchronize();
  exec::DeviceTarget target(device_, options_.target);
  step::Step step = step::compile_step({model_, recipe_, strategy_, form}, target, after);
  p.values = std::move(step.values);
  p.program =
      std::make_unique<exec::Program>(std::move(step.graph), device_, storage_, arena_, options_);
  for (const graph::Value& value : p.graph().values) {
    if (value.kind == graph::ValueKind::kInput)
      p.input_bytes += exec::Upload::rounded(graph::canonical_bytes(value));
  }
  most_input_bytes_ = std::max(most_input_bytes_, p.input_bytes);
  for (const auto& notes : {step.notes, target.notes()}) add_notes(notes);
  if (void* const one = p.address(p.values.one)) write(one, exec::encode({1.0}, dtype()));
  if (void* const state = p.address(p.values.loss_scaling); state != nullptr && !loss_scaled)
    write(state, exec::encode({RT_LOSS_SCALE_INITIAL, 0, 0}, dtype()));
  return programs_.emplace(form, std::move(p)).first->second;
}

void StepPrograms::add_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
  }
}

StepProgram& StepPrograms::any_compiled(const step::AfterPass& after) {
  if (inference_)
    return compiled(whole(Purpose::kEvaluation, config_.training.global_batch_size), after);
  const bool apart =
      step::is_asynchronous(config_, world_size());  // the owners update the parameters
  return compiled(whole(apart ? Purpose::kMicroStep : Purpose::kTraining, nominal_rows()), after);
}

void StepPrograms::set_stages(std::vector<parallel::StagedLayer> stages) {
  strategy_.pipeline.stages = std::move(stages);
}

int64_t StepPrograms::nominal_rows() const {
  return step::nominal_rows(strategy_.batch, config_.training.global_batch_size, rank());
}

int64_t StepPrograms::parameter_count() {
  int64_t count = 0;
  for (const model::Parameter& parameter : any_compiled().values.parameters) {
    if (parameter.trainable) count += graph::element_count(parameter.file_dims);
  }
  return count;
}

std::vector<double> StepPrograms::maximum(std::vector<double> values) const {
  if (collectives() != nullptr) collectives()->all_reduce(values.data(), values.size(), RT_MAX);
  return values;
}

void StepPrograms::write(void* address, const std::vector<std::byte>& bytes) {
  stream_.copy(address, bytes.data(), bytes.size());
  stream_.synchronize();
}

std::vector<std::byte> StepPrograms::read(const void* address, uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  stream_.copy(out.data(), address, bytes);
  stream_.synchronize();
  return out;
}

std::vector<std::byte> StepPrograms::read(const StepProgram& p, ValueId id) {
  const void* const address = p.address(id);
  if (address == nullptr) return {};
  return read(address, graph::canonical_bytes(p.graph().value(id)));
}

void StepPrograms::write_buffer(const std::string& name, uint64_t begin,
                                const std::vector<std::byte>& bytes) {
  exec::write_bytes(storage_, stream_, name, begin, bytes);
}

std::vector<std::byte> StepPrograms::read_buffer(const std::string& name, uint64_t begin,
                                                 uint64_t bytes) {
  return exec::read_bytes(storage_, stream_, name, begin, bytes);
}

std::vector<std::byte> StepPrograms::read_buffer(const std::string& name) {
  return read_buffer(name, 0, storage_.bytes(name));
}

double StepPrograms::read_scalar(const StepProgram& p, ValueId id) {
  const std::vector<std::byte> bytes = read(p, id);
  if (dtype() == RT_FLOAT64)
    return without_sign_of_nan(*reinterpret_cast<const double*>(bytes.data()));
  return without_sign_of_nan(*reinterpret_cast<const float*>(bytes.data()));
}

std::optional<LossScaling> StepPrograms::loss_scaling() {
  if (storage_.find(kLossScaling) == nullptr) return std::nullopt;
  const std::vector<std::byte> bytes = read_buffer(kLossScaling);
  float numbers[3];
  std::memcpy(numbers, bytes.data(), sizeof(numbers));
  return LossScaling{numbers[0], static_cast<int64_t>(numbers[2])};
}

void StepPrograms::upload_scalar(StepProgram& p, ValueId id, double value) {
  void* const to = p.address(id);
  if (to == nullptr) return;
  alignas(8) std::byte bytes[8];
  uint64_t size = 8;
  if (p.graph().value(id).dtype == RT_INT64) {
    const auto v = static_cast<int64_t>(value);
    std::memcpy(bytes, &v, 8);
  } else if (dtype() == RT_FLOAT64) {
    std::memcpy(bytes, &value, 8);
  } else {
    const auto v = static_cast<float>(value);
    std::memcpy(bytes, &v, size = 4);
  }
  upload_.copy(to, bytes, size);
}

// Queues the copy of float32 numbers of the host to a value of the training type.
void StepPrograms::upload_numbers(StepProgram& p, ValueId id, const float* from, size_t count) {
  void* const to = p.address(id);
  if (to == nullptr) return;
  if (dtype() == RT_FLOAT32) {
    upload_.copy(to, from, count * sizeof(float));
    return;
  }
  widened_.assign(from, from + count);
  upload_.copy(to, widened_.data(), count * sizeof(double));
}

void StepPrograms::upload_weights(StepProgram& p, ValueId id, const data::Batch& batch,
                                  int64_t first_row, int64_t rows) {
  void* const to = p.address(id);
  if (to == nullptr) return;
  weight_wide_.assign(rows * spec_.labels, 0.0);
  const double all = data::weight_of(batch) * static_cast<double>(spec_.labels);
  const data::LabelWeighing weighing(label_weights_, spec_, batch);
  for (int64_t i = 0; i < rows; ++i) {
    if (batch.positions[first_row + i] < 0) continue;
    for (int64_t k = 0; k < spec_.labels; ++k) {
      const double weight = label_weights_.any() ? weighing(first_row + i, k) : 1;
      if (weight > 0) weight_wide_[i * spec_.labels + k] = weight / all;
    }
  }
  weight_.assign(weight_wide_.begin(), weight_wide_.end());
  const void* from =
      dtype() == RT_FLOAT64 ? static_cast<const void*>(weight_wide_.data()) : weight_.data();
  upload_.copy(to, from, weight_.size() * graph::dtype_bytes(dtype()));
}

void StepPrograms::upload_input(StepProgram& p, ValueId id, const std::string& name,
                                const data::Batch& batch, int64_t first_row, int64_t rows) {
  const size_t input = *spec_.find_input(name);
  const int64_t count = spec_.inputs[input].numbers();
  const data::InputNumbers& numbers = batch.inputs[input];
  if (!spec_.inputs[input].integers)
    return upload_numbers(p, id, numbers.floats.data() + first_row * count, rows * count);
  if (void* const to = p.address(id))
    upload_.copy(to, numbers.integers.data() + first_row * count, rows * count * sizeof(int32_t));
}

void StepPrograms::upload_real(StepProgram& p, ValueId id, const data::Batch& batch,
                               int64_t first_row, int64_t rows) {
  real_.resize(rows);
  for (int64_t i = 0; i < rows; ++i) real_[i] = batch.positions[first_row + i] < 0 ? 0 : 1;
  upload_numbers(p, id, real_.data(), rows);
}

void StepPrograms::upload(StepProgram& p, const data::Batch& batch, int64_t first_row,
                          double learning_rate, int64_t step, exec::SpanRecorder* spans) {
  const exec::HostSpan span(spans, exec::SpanKind::kUpload);
  const int64_t rows = p.graph().value(p.values.weight).dims[0];
  const size_t features = batch.features.size() / batch.rows;
  const size_t targets = batch.targets.size() / batch.rows;
  upload_.begin_step(p.input_bytes);
  for (const parallel::ShardValues& shard : p.values.shards) {
    upload_numbers(p, shard.features, batch.features.data() + first_row * features,
                   rows * features);
    if (spec_.classes == 0) {
      upload_numbers(p, shard.target, batch.targets.data() + first_row * targets, rows * targets);
    } else if (void* const to = p.address(shard.target)) {
      upload_.copy(to, batch.labels.data() + first_row * spec_.labels,
                   rows * spec_.labels * sizeof(int32_t));
    }
    for (size_t i = 0; i < shard.named.size(); ++i)
      upload_input(p, shard.named[i], p.values.inputs[i].name, batch, first_row, rows);
    upload_weights(p, shard.weight, batch, first_row, rows);
    upload_real(p, shard.real, batch, first_row, rows);
    upload_scalar(p, shard.sample_base,
                  static_cast<double>(std::max<int64_t>(0, batch.positions[first_row])));
    first_row += rows;
  }
  for (const auto& rate : p.values.update.learning_rates)
    upload_scalar(p, rate.value, learning_rate * rate.factor);
  upload_scalar(p, p.values.update.step, static_cast<double>(step + 1));
  upload_scalar(p, p.values.update.first, step == 0 ? 1 : 0);
  upload_scalar(p, p.values.dropout_step, static_cast<double>(step));
  upload_.end_step(spans);
}

}  // namespace runtime::train
