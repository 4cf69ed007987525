// Runs steps, evaluations and predictions of one rank, and moves weights in and out.
#include "runtime/train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>

#include "plugins/host/drain.h"
#include "runtime/config/metrics.h"
#include "runtime/data/tensor_stream.h"
#include "runtime/error.h"
#include "runtime/exec/agreement.h"
#include "runtime/step/freeze.h"
#include "runtime/train/formatted.h"
#include "runtime/train/loss_mean.h"
#include "runtime/train/loss_window.h"
#include "runtime/train/metrics/validation_metrics.h"
#include "runtime/train/options.h"
#include "runtime/train/rank/micro_steps.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/rank/weight_average.h"
#include "runtime/train/rank/whole_parameters.h"
#include "runtime/train/weights.h"

namespace runtime::train {

using graph::kNone;
using graph::ValueId;
using step::Purpose;
using step::StepForm;

namespace {

// measure_speed() runs one warm-up step and then this many steps, of which it takes the fastest.
constexpr int kProbeSteps = 3;

// The bytes of a parameter inside a whole flat buffer.
std::vector<std::byte> slice(const std::vector<std::byte>& flat, const HeldParameter& held) {
  if (flat.empty()) return {};
  const std::byte* const begin = flat.data() + held.offset;
  return {begin, begin + held.bytes};
}

// Other characters would give the token ids another meaning.
void check_characters(const std::map<std::string, std::string>& metadata,
                      const std::string& characters, const std::string& path) {
  const auto it = metadata.find(kCharacters);
  if (it == metadata.end() || characters.empty() || it->second == characters) return;
  throw DataError(path + ": the weights were trained on the characters \"" + it->second +
                  "\", the data set has \"" + characters +
                  "\"; use a text with the same characters, or tokenizer = \"byte\"");
}

}  // namespace

struct Trainer::State {
  explicit State(std::shared_ptr<StepPrograms> own)
      : programs_of(std::move(own)), programs(*programs_of) {}

  exec::Collectives* collectives() const { return setup.collectives(); }
  // The rank is in step `step`, from 1, of a batch of this many samples.
  void begin_step(int64_t step, int64_t samples) const {
    if (collectives() != nullptr) collectives()->watchdog().at_step(step, plans.at(samples));
  }
  void end_step() const {
    if (collectives() != nullptr) collectives()->watchdog().at_step(0);
  }
  void initialise();
  void read_weights(const config::Model& from);
  void broadcast_parameters();
  void measure_speed();
  void prepare(const data::Batch& batch);
  void agree(const data::Batch& batch, const std::vector<StepForm>& forms);
  exec::RankGroups rank_groups() const;
  StepProgram& run(Purpose purpose, const data::Batch& batch, double learning_rate, int64_t step);
  StepProgram& infer(const data::Batch& batch);
  std::vector<double> read_outputs(const StepProgram& p);
  bool reports_outputs() const;
  void add_predictions(ValidationMetrics& metrics, const StepProgram& p, const data::Batch& batch);
  // The labels of a batch, which begins with its valid rows, without those that are ignored.
  double counted_labels(const data::Batch& batch) const;
  StepResult next_loss(const WeighedLoss& loss) {
    return {results++, loss.loss, loss.weight, loss.scale};
  }
  std::vector<const HeldParameter*> statistics();
  std::vector<int> replicas() const;

  std::shared_ptr<StepPrograms> programs_of;
  StepPrograms& programs;
  const RankSetup& setup = programs.setup();
  RankModel& model = programs.rank_model();
  WholeParameters parameters{model};
  WeightAverage average{model, parameters};
  std::unique_ptr<LossWindow> losses;
  // What the rank does with its communicators in a step, by the samples of the global batch: the
  // ranks have compared it.
  std::map<int64_t, std::shared_ptr<const watch::Plan>> plans;
  std::deque<StepResult> early;  // results taken out of `losses` to make room
  exec::SpanRecorder* spans = nullptr;
  int64_t steps = 0, results = 0;
  plugins::host::Drain drain{programs.stream()};  // last: its work uses everything above
};

void Trainer::State::initialise() {
  programs.any_compiled();
  std::vector<std::byte> bytes;
  for (const HeldParameter& held : model.parameters()) {
    if (!held.here) continue;
    draw_initial_values(held.parameter, setup.config.debug.seed, setup.dtype(),
                        threads_of_rank(setup.config), bytes);
    parameters.write_canonical(held, bytes);
  }
  model.storage().parameters_changed();
}

// The ranks that hold the same slices of the model.
std::vector<int> Trainer::State::replicas() const {
  return setup.strategy.mesh.along(parallel::kDataAxis, setup.rank());
}

// The parameters are equal already, unless the files or programs of the ranks differ.
void Trainer::State::broadcast_parameters() {
  if (collectives() == nullptr) return;
  for (const HeldParameter& held : model.parameters()) {
    if (!held.here || parameters.is_partitioned(held)) continue;
    std::vector<std::byte> bytes = model.read(held);
    collectives()->broadcast(bytes.data(), bytes.size(), 0, parallel::kGradientsCommunicator);
    model.write(held, bytes);
  }
  model.storage().parameters_changed();
}

// Measures the samples per second of each rank, with equal numbers of samples; the ranks' samples
// will be in proportion to that.
void Trainer::State::measure_speed() {
  const int64_t rows = setup.nominal_rows();
  StepProgram& p = programs.compiled(setup.whole(Purpose::kMicroStep, rows));
  const data::Batch zeros = data::zero_batch(setup.spec, rows);
  double seconds = 0;
  for (int i = 0; i <= kProbeSteps; ++i) {
    programs.upload(p, zeros, 0, 0, 0);
    programs.stream().synchronize();
    const auto begin = std::chrono::steady_clock::now();
    p.program->run(programs.stream());
    programs.stream().synchronize();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (i == 1 || (i > 1 && elapsed.count() < seconds)) seconds = elapsed.count();
  }
  const double speed = static_cast<double>(rows) / seconds;
  std::vector<double> speeds(setup.world_size());
  collectives()->all_gather(&speed, speeds.data(), sizeof(double));
  programs.set_speeds(std::move(speeds));
}

void Trainer::State::agree(const data::Batch& batch, const std::vector<StepForm>& forms) {
  if (collectives() == nullptr || plans.contains(batch.global_rows)) return;
  std::vector<const graph::Graph*> graphs;
  for (const StepForm& form : forms) graphs.push_back(&programs.compiled(form).program->graph());
  auto plan = exec::plan_of(graphs, setup.world_size());
  exec::agree_on(plan, "a step of " + std::to_string(batch.global_rows) + " samples", rank_groups(),
                 *collectives());
  plans[batch.global_rows] = std::make_shared<const watch::Plan>(std::move(plan));
}

// Transfers along a pipeline are not equal on the ranks of its communicator.
exec::RankGroups Trainer::State::rank_groups() const {
  const parallel::Mesh& mesh = setup.strategy.mesh;
  exec::RankGroups groups{.replicas = replicas()};
  for (int c = 0; c < parallel::kCommunicators; ++c) {
    std::vector<int> ranks = mesh.members(c, setup.rank());
    if (ranks.size() == 1) continue;
    if (parallel::axis_of(c) != parallel::kDataAxis)
      groups.of_model[c] = static_cast<int>(ranks.size());
    if (c != parallel::kPipelineCommunicator) groups.equal[c] = std::move(ranks);
  }
  return groups;
}

// Queues the micro-steps of a batch; returns the program of the last one, which has the results.
StepProgram& Trainer::State::run(Purpose purpose, const data::Batch& batch, double learning_rate,
                                 int64_t step) {
  StepProgram* last = nullptr;
  for_each_micro_step(programs, purpose, batch, learning_rate, step, spans, [&](StepProgram& p) {
    const exec::HostSpan span(spans, exec::SpanKind::kLaunch);
    p.program->run(programs.stream(), spans);
    last = &p;
  });
  return *last;
}

StepProgram& Trainer::State::infer(const data::Batch& batch) {
  StepProgram& p = programs.compiled(setup.whole(Purpose::kEvaluation, batch.rows));
  programs.upload(p, batch, 0, 0, steps);
  p.program->run(programs.stream());
  return p;
}

std::vector<double> Trainer::State::read_outputs(const StepProgram& p) {
  const graph::Value& value = p.program->graph().value(p.values.output);
  const std::vector<std::byte> bytes =
      converted({value.dtype, value.dims, programs.read(p, p.values.output)}, RT_FLOAT64);
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  std::transform(numbers.begin(), numbers.end(), numbers.begin(), without_sign_of_nan<double>);
  return numbers;
}

// Whether this rank is the one of those with the same samples whose outputs the metrics count. The
// last stage of a pipeline has them, and all ranks of the tensor axis have the same.
bool Trainer::State::reports_outputs() const {
  const step::Strategy& strategy = setup.strategy;
  int last = 0;
  if (strategy.mesh.pipeline > 1) {
    const int stages = parallel::make_schedule(strategy.pipeline.schedule).stages();
    last = (stages - 1) % strategy.mesh.pipeline;
  }
  return strategy.place.tensor == 0 && strategy.place.pipeline == last;
}

void Trainer::State::add_predictions(ValidationMetrics& metrics, const StepProgram& p,
                                     const data::Batch& batch) {
  const std::vector<double> outputs = read_outputs(p);
  const int64_t labels = setup.spec.labels;
  Predictions predictions;
  predictions.batch = batch.index;
  predictions.rows = batch.valid * labels;
  predictions.width = static_cast<int64_t>(outputs.size()) / (batch.rows * labels);
  predictions.outputs = outputs.data();
  predictions.labels = batch.labels.data();
  predictions.targets = batch.targets.data();
  std::vector<bool> counts;
  const data::LabelWeights weights = label_weights(setup.config);
  if (!weights.input.empty()) {
    const data::LabelWeighing weighing(weights, setup.spec, batch);
    for (int64_t i = 0; i < predictions.rows; ++i)
      counts.push_back(weighing(i / labels, i % labels) > 0);
    predictions.counts = &counts;
  }
  metrics.add(predictions);
}

double Trainer::State::counted_labels(const data::Batch& batch) const {
  const int64_t labels = setup.spec.labels;
  const data::LabelWeights weights = label_weights(setup.config);
  if (!weights.any()) return static_cast<double>(batch.valid * labels);
  const data::LabelWeighing weighing(weights, setup.spec, batch);
  int64_t counted = 0;
  for (int64_t i = 0; i < batch.valid * labels; ++i)
    counted += weighing(i / labels, i % labels) > 0 ? 1 : 0;
  return static_cast<double>(counted);
}

std::vector<const HeldParameter*> Trainer::State::statistics() {
  std::vector<const HeldParameter*> result;
  for (const HeldParameter& held : model.parameters()) {
    if (!held.parameter.trainable && held.here) result.push_back(&held);
  }
  return result;
}

Trainer::Trainer(std::shared_ptr<StepPrograms> programs)
    : state_(std::make_unique<State>(std::move(programs))) {
  State& s = *state_;
  const config::Config& config = s.setup.config;
  s.losses = std::make_unique<LossWindow>(s.setup.device, s.setup.dtype());
  if (s.collectives() != nullptr && config.parallelism.by_speed() &&
      s.setup.strategy.batch.weights.empty())
    s.measure_speed();
  s.initialise();
  if (!config.model.init_from.empty()) s.read_weights(config.model);
  s.broadcast_parameters();
  s.average.start();
}

Trainer::~Trainer() = default;

// Reads the file tensor by tensor into place, so that it is never in memory as a whole.
void Trainer::State::read_weights(const config::Model& from) {
  data::TensorStream stream(from.init_from);
  data::FileView header = stream.header();
  check_characters(header.metadata, setup.spec.characters, from.init_from);
  const auto rows = rows_to_append(header, model.values().parameters, from.init_append);
  check_weights(header, model.values().parameters, from.init_from, from.init_except);
  std::map<std::string, const HeldParameter*> known;
  for (const HeldParameter& held : model.parameters()) {
    if (!step::matches_any(from.init_except, held.parameter.name))
      known[held.parameter.name] = &held;
  }
  stream.read([&](const std::string& name, data::HostTensor tensor) {
    const auto held = known.find(name);
    if (held == known.end()) return;
    if (const auto more = rows.find(name); more != rows.end()) append_rows(tensor, more->second);
    parameters.write(*held->second, converted(tensor, setup.dtype()));
  });
  model.storage().parameters_changed();
}

const parallel::BatchSplit& Trainer::split() const { return state_->setup.strategy.batch; }

void Trainer::State::prepare(const data::Batch& batch) {
  const exec::HostSpan span(spans, exec::SpanKind::kPrepare);
  const std::vector<StepForm>& forms = programs.forms(Purpose::kTraining, batch);
  for (const StepForm& form : forms) programs.compiled(form);
  agree(batch, forms);
}

void Trainer::step(const data::Batch& batch, double learning_rate) {
  State& s = *state_;
  s.prepare(batch);
  s.begin_step(s.steps + 1, batch.global_rows);
  StepProgram& last = s.run(Purpose::kTraining, batch, learning_rate, s.steps);
  s.end_step();
  const exec::HostSpan span(s.spans, exec::SpanKind::kReport);
  if (s.losses->full()) s.early.push_back(s.next_loss(*s.losses->pop(true)));
  s.losses->push(s.programs.stream(), last.program->address(last.values.loss),
                 last.address(last.values.gradient_scale),
                 weight_of_step(batch, s.setup.config.training.global_batch_size));
  ++s.steps;
}

void Trainer::record(exec::SpanRecorder* spans) {
  state_->spans = spans;
  if (state_->collectives() != nullptr) state_->collectives()->record(spans);
}

std::optional<StepResult> Trainer::next_result(bool wait) {
  State& s = *state_;
  if (!s.early.empty()) {
    const StepResult result = s.early.front();
    s.early.pop_front();
    return result;
  }
  const std::optional<WeighedLoss> loss = s.losses->pop(wait);
  if (!loss) return std::nullopt;
  return s.next_loss(*loss);
}

void Trainer::confirm_results() {
  if (!state_->setup.device->events_report_errors()) state_->programs.stream().synchronize();
}

double Evaluation::monitored(const std::string& monitor) const {
  if (config::is_loss(monitor)) return loss;
  const double* const value = metrics.find(monitor);
  return value == nullptr ? accuracy : *value;
}

std::optional<LossScaling> Trainer::loss_scaling() { return state_->model.loss_scaling(); }

bool Trainer::has_average() const { return state_->average.exists(); }

data::TensorFile Trainer::average() {
  const std::vector<std::byte> trained = state_->average.put_in_place();
  data::TensorFile file = weights();
  state_->average.restore(trained);
  return file;
}

Evaluation Trainer::evaluate(data::Loader& loader, const BatchBegins& begins) {
  if (!has_average()) return evaluate_present(loader, begins);
  const std::vector<std::byte> trained = state_->average.put_in_place();
  Evaluation evaluation = evaluate_present(loader, begins);
  state_->average.restore(trained);
  return evaluation;
}

Evaluation Trainer::evaluate_present(data::Loader& loader, const BatchBegins& begins) {
  State& s = *state_;
  share_statistics();
  const int64_t batches = loader.batches_per_epoch();
  // For each batch: loss, correct answers, samples, weight of the samples, labels that count.
  constexpr int64_t kSums = 5;
  std::vector<double> sums(kSums * batches, 0.0);
  ValidationMetrics metrics(s.setup.config.validation.metrics, s.setup.spec,
                            s.model.values().predictions, label_weights(s.setup.config).ignored);
  const bool reads = metrics.reads_predictions() && s.reports_outputs();
  for (int64_t i = s.setup.rank(); i < batches; i += s.setup.world_size()) {
    if (begins) begins(i, batches);
    const data::Batch& batch = loader.next();
    const StepProgram& p = s.infer(batch);
    double* const own = &sums[kSums * i];
    own[3] = data::weight_of(batch);
    own[0] = s.programs.read_scalar(p, p.values.loss) * own[3];
    if (p.values.correct != kNone) own[1] = s.programs.read_scalar(p, p.values.correct);
    own[2] = static_cast<double>(batch.valid);
    own[4] = s.counted_labels(batch);
    if (reads) s.add_predictions(metrics, p, batch);
  }
  // Other ranks may need this rank's ZeRO partition of the parameters once more.
  if (s.setup.strategy.zero_partitions(3) && batches % s.setup.world_size() > 0 &&
      s.setup.rank() >= batches % s.setup.world_size()) {
    const data::Batch zeros = data::zero_batch(s.setup.spec, 1);
    s.infer(zeros);
    s.programs.stream().synchronize();
  }
  if (s.collectives() != nullptr) {
    s.collectives()->all_reduce(sums.data(), sums.size(), RT_SUM, parallel::kGradientsCommunicator);
  }
  std::array<double, kSums> all = {};
  for (size_t i = 0; i < sums.size(); ++i) all[i % kSums] += sums[i];
  const auto mean = [](double sum, double weight) {
    return weight > 0 ? sum / weight : std::numeric_limits<double>::quiet_NaN();
  };
  Evaluation e{mean(all[0], all[3]), mean(all[1], all[4]), static_cast<int64_t>(all[2])};
  e.counts = all[3] > 0;
  e.metrics = metrics.combine(gather_over(s.collectives()), e.loss, e.counts);
  return e;
}

std::vector<double> Trainer::outputs(const data::Batch& batch) {
  State& s = *state_;
  return s.read_outputs(s.infer(batch));
}

data::TensorFile Trainer::gradients(const data::Batch& batch, std::optional<int64_t> step) {
  State& s = *state_;
  StepProgram& p = s.run(Purpose::kGradients, batch, 0, step.value_or(s.steps));
  s.model.storage().parameters_changed();  // the running statistics
  data::TensorFile file;
  const auto tensor = [&](ValueId id) {
    const graph::Value& value = p.graph().value(id);
    return data::HostTensor{value.dtype, value.dims, s.programs.read(p, id)};
  };
  // This buffer has the reduced gradients, whatever buffers the backward passes of virtual shards
  // or micro-steps have written.
  const std::vector<std::byte> reduced = s.parameters.unscaled(
      s.parameters.flat_bytes(step::kGradients, s.model.values().buffers.layout, 2));
  for (size_t i = 0; i < s.model.parameters().size(); ++i) {
    const HeldParameter& held = s.model.parameters()[i];
    const model::Parameter& parameter = held.parameter;
    if (parameter.trainable && step::matches_any(s.setup.config.model.freeze, parameter.name))
      continue;
    std::vector<std::byte> own;
    if (parameter.trainable && p.values.gradients[i] != kNone) own = slice(reduced, held);
    if (!parameter.trainable) own = s.model.read(held);
    data::HostTensor t{s.setup.dtype(), parameter.file_dims,
                       s.parameters.joined(held, std::move(own))};
    const std::string name = (parameter.trainable ? "" : "after.") + parameter.name;
    if (!t.bytes.empty()) file.tensors.emplace(name, std::move(t));
  }
  const bool at_once = s.programs.forms(Purpose::kGradients, batch).size() == 1;
  if (s.collectives() == nullptr && at_once && p.values.shards.size() == 1)
    file.tensors.emplace("logits", tensor(p.values.output));
  file.tensors.emplace("loss", tensor(p.values.loss));
  return file;
}

data::TensorFile Trainer::weights() {
  State& s = *state_;
  data::TensorFile file;
  const parallel::StepBuffers& b = s.model.values().buffers;
  const std::map<std::string, std::vector<std::byte>> flat = {
      {step::kParameters, s.parameters.flat_bytes(step::kParameters, b.layout, 3)},
      {step::kFrozen, s.parameters.flat_bytes(step::kFrozen, b.frozen_layout, 3)}};
  for (const HeldParameter& held : s.model.parameters()) {
    const auto in = flat.find(held.buffer);
    std::vector<std::byte> own = in != flat.end() ? slice(in->second, held) : s.model.read(held);
    file.tensors.emplace(held.parameter.name,
                         data::HostTensor{s.setup.dtype(), held.parameter.file_dims,
                                          s.parameters.joined(held, std::move(own))});
  }
  file.metadata["format"] = "pt";
  if (!s.setup.spec.characters.empty()) file.metadata[kCharacters] = s.setup.spec.characters;
  if (!s.setup.spec.preparation.empty()) file.metadata[kPreparation] = s.setup.spec.preparation;
  return file;
}

void Trainer::set_weights(const data::TensorFile& file, const std::string& path,
                          const std::vector<std::string>& except) {
  State& s = *state_;
  check_characters(file.metadata, s.setup.spec.characters, path);
  check_weights(file, s.model.values().parameters, path, except);
  for (const HeldParameter& held : s.model.parameters()) {
    if (step::matches_any(except, held.parameter.name)) continue;
    s.parameters.write(held, converted(file.tensors.at(held.parameter.name), s.setup.dtype()));
  }
  s.model.storage().parameters_changed();
  s.average.start();
}

void Trainer::share_statistics() {
  State& s = *state_;
  if (s.collectives() == nullptr) return;
  std::vector<std::byte> all;
  for (const HeldParameter* held : s.statistics()) {
    const std::vector<std::byte> one = s.model.read(*held);
    all.insert(all.end(), one.begin(), one.end());
  }
  if (all.empty()) return;
  s.collectives()->broadcast(all.data(), all.size(), 0, parallel::kGradientsCommunicator);
  const std::byte* from = all.data();
  for (const HeldParameter* held : s.statistics()) {
    s.model.write(*held, {from, from + held->bytes});
    from += held->bytes;
  }
  s.model.storage().parameters_changed();
}

void Trainer::check_replicas() {
  State& s = *state_;
  if (s.collectives() == nullptr) return;
  const std::vector<std::byte> bytes =
      s.parameters.flat_bytes(step::kParameters, s.model.values().buffers.layout, 3);
  const uint64_t hash =
      std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  std::vector<uint64_t> hashes(s.collectives()->world_size());
  s.collectives()->all_gather(&hash, hashes.data(), sizeof(hash));
  const std::vector<int> ranks = s.replicas();
  for (int r : ranks) {
    if (hashes[r] == hashes[ranks[0]]) continue;
    throw NumericError("after step " + std::to_string(s.steps) + " the parameters of rank " +
                       std::to_string(r) + " differ from those of rank " +
                       std::to_string(ranks[0]) +
                       "; look for faulty memory "
                       "or ranks with different devices or programs, and start again from weights "
                       "saved before");
  }
}

int64_t Trainer::steps_done() const { return state_->steps; }

void Trainer::set_steps_done(int64_t steps) { state_->steps = state_->results = steps; }

}  // namespace runtime::train
