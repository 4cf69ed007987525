// Runs steps, evaluations and predictions of one rank, and moves weights in and out.
#include "runtime/train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <set>

#include "plugins/host/drain.h"
#include "runtime/config/metrics.h"
#include "runtime/data/tensor_stream.h"
#include "runtime/error.h"
#include "runtime/step/freeze.h"
#include "runtime/train/formatted.h"
#include "runtime/train/loss_mean.h"
#include "runtime/train/loss_window.h"
#include "runtime/train/metrics/validation_metrics.h"
#include "runtime/train/micro_steps.h"
#include "runtime/train/options.h"
#include "runtime/train/parameters/weight_average.h"
#include "runtime/train/parameters/whole_parameters.h"
#include "runtime/train/step_programs.h"
#include "runtime/train/weights.h"

namespace runtime::train {

using graph::kNone;
using graph::ValueId;
using step::Purpose;
using step::StepForm;

namespace {

// measure_speed() runs one warm-up step and then this many steps, of which it takes the fastest.
constexpr int kProbeSteps = 3;

// The bytes of parameter `i` inside a flat buffer.
std::vector<std::byte> slice(const std::vector<std::byte>& flat, const StepProgram& p, size_t i) {
  if (flat.empty()) return {};
  const std::byte* const begin = flat.data() + p.values.offsets[i];
  return {begin, begin + graph::canonical_bytes(p.graph().value(p.values.parameters[i].value))};
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
      : programs_of(std::move(own)), programs(*programs_of), parameters(programs) {}

  exec::Collectives* collectives() const { return programs.collectives(); }
  void initialise();
  void read_weights(const config::Model& model);
  void broadcast_parameters();
  void measure_speed();
  void prepare(const data::Batch& batch);
  void agree(const data::Batch& batch, const std::vector<StepForm>& forms);
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
  std::vector<const model::Parameter*> statistics();
  std::vector<int> replicas() const;

  std::shared_ptr<StepPrograms> programs_of;
  StepPrograms& programs;
  WholeParameters parameters;
  WeightAverage average{programs, parameters};
  std::unique_ptr<LossWindow> losses;
  std::set<int64_t> agreed;      // global batch sizes whose collectives have been compared
  std::deque<StepResult> early;  // results taken out of `losses` to make room
  exec::SpanRecorder* spans = nullptr;
  int64_t steps = 0, results = 0;
  plugins::host::Drain drain{programs.stream()};  // last: its work uses everything above
};

void Trainer::State::initialise() {
  StepProgram& p = programs.any_compiled();
  const config::Config& c = programs.config();
  std::vector<std::byte> bytes;
  for (const model::Parameter& parameter : p.values.parameters) {
    if (!p.program->uses(parameter.value)) continue;
    draw_initial_values(parameter, c.debug.seed, programs.dtype(), threads_of_rank(c), bytes);
    parameters.write_canonical(p, parameter, bytes);
  }
  programs.storage().parameters_changed();
}

// The ranks that hold the same slices of the model.
std::vector<int> Trainer::State::replicas() const {
  std::vector<int> ranks;
  for (int i = 0; i < programs.strategy().mesh.data; ++i)
    ranks.push_back(programs.strategy().mesh.rank_of(
        {i, programs.strategy().place.tensor, programs.strategy().place.pipeline}));
  return ranks;
}

// The parameters are equal already, unless the files or programs of the ranks differ.
void Trainer::State::broadcast_parameters() {
  if (collectives() == nullptr) return;
  StepProgram& p = programs.any_compiled();
  for (const model::Parameter& parameter : p.values.parameters) {
    if (!p.program->uses(parameter.value) || parameters.layout_of_parts(p, parameter) != nullptr)
      continue;
    std::vector<std::byte> bytes = programs.read(p, parameter.value);
    collectives()->broadcast(bytes.data(), bytes.size(), 0, parallel::kGradientsCommunicator);
    programs.write(p.program->address(parameter.value), bytes);
  }
  programs.storage().parameters_changed();
}

// Measures the samples per second of each rank, with equal numbers of samples; the ranks' samples
// will be in proportion to that.
void Trainer::State::measure_speed() {
  const int64_t rows = programs.nominal_rows();
  StepProgram& p = programs.compiled(programs.whole(Purpose::kMicroStep, rows));
  const data::Batch zeros = data::zero_batch(programs.spec(), rows);
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
  std::vector<double> speeds(programs.world_size());
  collectives()->all_gather(&speed, speeds.data(), sizeof(double));
  programs.set_speeds(std::move(speeds));
}

void Trainer::State::agree(const data::Batch& batch, const std::vector<StepForm>& forms) {
  if (collectives() == nullptr || !agreed.insert(batch.global_rows).second) return;
  std::vector<std::string> list;
  for (const StepForm& form : forms) {
    // Only collectives of the data axis are compared, because the sizes of those of the tensor and
    // pipeline axes depend on how many samples a rank has.
    const exec::Program& program = *programs.compiled(form).program;
    for (std::string& item : program.collective_list(parallel::kStatisticsCommunicator))
      list.push_back(std::move(item));
  }
  collectives()->compare(
      "collective (of a step of " + std::to_string(batch.global_rows) + " samples)", list,
      replicas());
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
  StepProgram& p = programs.compiled(programs.whole(Purpose::kEvaluation, batch.rows));
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
  const step::Strategy& strategy = programs.strategy();
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
  const int64_t labels = programs.spec().labels;
  Predictions predictions;
  predictions.batch = batch.index;
  predictions.rows = batch.valid * labels;
  predictions.width = static_cast<int64_t>(outputs.size()) / (batch.rows * labels);
  predictions.outputs = outputs.data();
  predictions.labels = batch.labels.data();
  predictions.targets = batch.targets.data();
  std::vector<bool> counts;
  const data::LabelWeights weights = label_weights(programs.config());
  if (!weights.input.empty()) {
    const data::LabelWeighing weighing(weights, programs.spec(), batch);
    for (int64_t i = 0; i < predictions.rows; ++i)
      counts.push_back(weighing(i / labels, i % labels) > 0);
    predictions.counts = &counts;
  }
  metrics.add(predictions);
}

double Trainer::State::counted_labels(const data::Batch& batch) const {
  const int64_t labels = programs.spec().labels;
  const data::LabelWeights weights = label_weights(programs.config());
  if (!weights.any()) return static_cast<double>(batch.valid * labels);
  const data::LabelWeighing weighing(weights, programs.spec(), batch);
  int64_t counted = 0;
  for (int64_t i = 0; i < batch.valid * labels; ++i)
    counted += weighing(i / labels, i % labels) > 0 ? 1 : 0;
  return static_cast<double>(counted);
}

std::vector<const model::Parameter*> Trainer::State::statistics() {
  std::vector<const model::Parameter*> result;
  for (const model::Parameter& parameter : programs.any_compiled().values.parameters) {
    if (!parameter.trainable && programs.any_compiled().program->uses(parameter.value))
      result.push_back(&parameter);
  }
  return result;
}

Trainer::Trainer(std::shared_ptr<StepPrograms> programs)
    : state_(std::make_unique<State>(std::move(programs))) {
  State& s = *state_;
  const config::Config& config = s.programs.config();
  s.losses = std::make_unique<LossWindow>(s.programs.device(), s.programs.dtype());
  if (s.collectives() != nullptr && config.parallelism.by_speed() &&
      s.programs.strategy().batch.weights.empty())
    s.measure_speed();
  s.initialise();
  if (!config.model.init_from.empty()) s.read_weights(config.model);
  s.broadcast_parameters();
  s.average.start();
}

Trainer::~Trainer() = default;

// Reads the file tensor by tensor into place, so that it is never in memory as a whole.
void Trainer::State::read_weights(const config::Model& model) {
  StepProgram& p = programs.any_compiled();
  data::TensorStream stream(model.init_from);
  data::FileView header = stream.header();
  check_characters(header.metadata, programs.spec().characters, model.init_from);
  const auto rows = rows_to_append(header, p.values.parameters, model.init_append);
  check_weights(header, p.values.parameters, model.init_from, model.init_except);
  std::map<std::string, const model::Parameter*> known;
  for (const model::Parameter& parameter : p.values.parameters) {
    if (!step::matches_any(model.init_except, parameter.name)) known[parameter.name] = &parameter;
  }
  stream.read([&](const std::string& name, data::HostTensor tensor) {
    const auto parameter = known.find(name);
    if (parameter == known.end()) return;
    if (const auto more = rows.find(name); more != rows.end()) append_rows(tensor, more->second);
    parameters.write(p, *parameter->second, converted(tensor, programs.dtype()));
  });
  programs.storage().parameters_changed();
}

const parallel::BatchSplit& Trainer::split() const { return state_->programs.strategy().batch; }

void Trainer::State::prepare(const data::Batch& batch) {
  const exec::HostSpan span(spans, exec::SpanKind::kPrepare);
  const std::vector<StepForm>& forms = programs.forms(Purpose::kTraining, batch);
  for (const StepForm& form : forms) programs.compiled(form);
  agree(batch, forms);
}

void Trainer::step(const data::Batch& batch, double learning_rate) {
  State& s = *state_;
  s.prepare(batch);
  StepProgram& last = s.run(Purpose::kTraining, batch, learning_rate, s.steps);
  const exec::HostSpan span(s.spans, exec::SpanKind::kReport);
  if (s.losses->full()) s.early.push_back(s.next_loss(*s.losses->pop(true)));
  s.losses->push(s.programs.stream(), last.program->address(last.values.loss),
                 last.address(last.values.gradient_scale),
                 weight_of_step(batch, s.programs.config().training.global_batch_size));
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
  if (!state_->programs.device()->events_report_errors()) state_->programs.stream().synchronize();
}

double Evaluation::monitored(const std::string& monitor) const {
  if (config::is_loss(monitor)) return loss;
  const double* const value = metrics.find(monitor);
  return value == nullptr ? accuracy : *value;
}

std::optional<LossScaling> Trainer::loss_scaling() { return state_->programs.loss_scaling(); }

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
  ValidationMetrics metrics(s.programs.config().validation.metrics, s.programs.spec(),
                            s.programs.any_compiled().values.predictions,
                            label_weights(s.programs.config()).ignored);
  const bool reads = metrics.reads_predictions() && s.reports_outputs();
  for (int64_t i = s.programs.rank(); i < batches; i += s.programs.world_size()) {
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
  if (s.parameters.holds_parts(3) && batches % s.programs.world_size() > 0 &&
      s.programs.rank() >= batches % s.programs.world_size()) {
    const data::Batch zeros = data::zero_batch(s.programs.spec(), 1);
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
  s.programs.storage().parameters_changed();  // the running statistics
  data::TensorFile file;
  const auto tensor = [&](ValueId id) {
    const graph::Value& value = p.graph().value(id);
    return data::HostTensor{value.dtype, value.dims, s.programs.read(p, id)};
  };
  // This buffer has the reduced gradients, whatever buffers the backward passes of virtual shards
  // or micro-steps have written.
  const std::vector<std::byte> reduced = s.parameters.unscaled(
      s.parameters.flat_bytes(p, p.values.buffers.gradients, p.values.buffers.layout, 2));
  for (size_t i = 0; i < p.values.parameters.size(); ++i) {
    const model::Parameter& parameter = p.values.parameters[i];
    if (parameter.trainable && step::matches_any(s.programs.config().model.freeze, parameter.name))
      continue;
    std::vector<std::byte> own;
    if (parameter.trainable && p.values.gradients[i] != kNone) own = slice(reduced, p, i);
    if (!parameter.trainable) own = s.programs.read(p, parameter.value);
    data::HostTensor t{s.programs.dtype(), parameter.file_dims,
                       s.parameters.joined(p, parameter, std::move(own))};
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
  StepProgram& p = s.programs.any_compiled();
  data::TensorFile file;
  const parallel::StepBuffers& b = p.values.buffers;
  const std::map<ValueId, std::vector<std::byte>> flat = {
      {b.parameters, s.parameters.flat_bytes(p, b.parameters, b.layout, 3)},
      {b.frozen, s.parameters.flat_bytes(p, b.frozen, b.frozen_layout, 3)}};
  for (size_t i = 0; i < p.values.parameters.size(); ++i) {
    const model::Parameter& parameter = p.values.parameters[i];
    const graph::Value& value = p.graph().value(parameter.value);
    const auto in = flat.find(value.base);
    std::vector<std::byte> own =
        in != flat.end() ? slice(in->second, p, i) : s.programs.read(p, parameter.value);
    file.tensors.emplace(parameter.name,
                         data::HostTensor{s.programs.dtype(), parameter.file_dims,
                                          s.parameters.joined(p, parameter, std::move(own))});
  }
  file.metadata["format"] = "pt";
  if (!s.programs.spec().characters.empty())
    file.metadata[kCharacters] = s.programs.spec().characters;
  if (!s.programs.spec().preparation.empty())
    file.metadata[kPreparation] = s.programs.spec().preparation;
  return file;
}

void Trainer::set_weights(const data::TensorFile& file, const std::string& path,
                          const std::vector<std::string>& except) {
  State& s = *state_;
  StepProgram& p = s.programs.any_compiled();
  check_characters(file.metadata, s.programs.spec().characters, path);
  check_weights(file, p.values.parameters, path, except);
  for (const model::Parameter& parameter : p.values.parameters) {
    if (step::matches_any(except, parameter.name)) continue;
    s.parameters.write(p, parameter,
                       converted(file.tensors.at(parameter.name), s.programs.dtype()));
  }
  s.programs.storage().parameters_changed();
  s.average.start();
}

void Trainer::share_statistics() {
  State& s = *state_;
  if (s.collectives() == nullptr) return;
  StepProgram& p = s.programs.any_compiled();
  std::vector<std::byte> all;
  for (const model::Parameter* parameter : s.statistics()) {
    const std::vector<std::byte> one = s.programs.read(p, parameter->value);
    all.insert(all.end(), one.begin(), one.end());
  }
  if (all.empty()) return;
  s.collectives()->broadcast(all.data(), all.size(), 0, parallel::kGradientsCommunicator);
  const std::byte* from = all.data();
  for (const model::Parameter* parameter : s.statistics()) {
    const uint64_t bytes = graph::canonical_bytes(p.graph().value(parameter->value));
    s.programs.write(p.program->address(parameter->value), {from, from + bytes});
    from += bytes;
  }
  s.programs.storage().parameters_changed();
}

void Trainer::check_replicas() {
  State& s = *state_;
  if (s.collectives() == nullptr) return;
  StepProgram& p = s.programs.any_compiled();
  const std::vector<std::byte> bytes =
      s.parameters.flat_bytes(p, p.values.buffers.parameters, p.values.buffers.layout, 3);
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
