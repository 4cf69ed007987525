#include "runtime/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <set>

#include "runtime/error.h"
#include "runtime/step/freeze.h"
#include "runtime/train/loss_window.h"
#include "runtime/train/step_programs.h"
#include "runtime/train/weights.h"

namespace runtime::train {

using graph::kNone;
using graph::ValueId;
using step::Purpose;
using step::StepForm;

namespace {

// Probe steps: one warm-up, then the fastest of these counts.
constexpr int kProbeSteps = 3;

// The bytes of parameter `i` inside a flat buffer.
std::vector<std::byte> slice(const std::vector<std::byte>& flat, const StepProgram& p, size_t i) {
  if (flat.empty()) return {};
  const std::byte* const begin = flat.data() + p.values.offsets[i];
  return {begin, begin + graph::canonical_bytes(p.graph().value(p.values.parameters[i].value))};
}

// Other characters would give the token ids another meaning.
void check_characters(const data::TensorFile& file, const std::string& characters,
                      const std::string& path) {
  const auto it = file.metadata.find("characters");
  if (it == file.metadata.end() || characters.empty() || it->second == characters) return;
  throw DataError(path + ": the weights were trained on the characters \"" + it->second +
                  "\", the data set has \"" + characters +
                  "\"; use a text with the same characters, or tokenizer = \"byte\"");
}

}  // namespace

struct Trainer::State : StepPrograms {
  using StepPrograms::StepPrograms;

  exec::Collectives* collectives() const { return options.collectives; }
  void initialise();
  void broadcast_parameters();
  void measure_speed();
  void agree(const data::Batch& batch, const std::vector<StepForm>& forms);
  StepProgram& run(const std::vector<StepForm>& forms, const data::Batch& batch,
                   double learning_rate, int64_t step);
  StepProgram& infer(const data::Batch& batch);
  std::vector<const model::Parameter*> statistics();
  void write_parameter(StepProgram& p, const model::Parameter& parameter,
                       const std::vector<std::byte>& values);
  const parallel::ShardedParameter* sharded(const StepProgram& p,
                                            const model::Parameter& parameter) const;
  std::vector<std::byte> joined(const StepProgram& p, const model::Parameter& parameter,
                                std::vector<std::byte> bytes);
  bool holds_parts(int zero_stage) const {
    return config.parallelism.zero_stage >= zero_stage && strategy.batch.world_size > 1;
  }
  const parallel::FlatLayout* layout_of_parts(const StepProgram& p,
                                              const model::Parameter& parameter) const;
  std::vector<std::byte> flat_bytes(const StepProgram& p, ValueId flat,
                                    const parallel::FlatLayout& layout, int zero_stage);
  std::vector<std::byte> unscaled(std::vector<std::byte> gradients);
  std::vector<int> replicas() const;

  std::unique_ptr<LossWindow> losses;
  std::set<int64_t> agreed;      // global batch sizes whose collectives have been compared
  std::deque<StepResult> early;  // results taken out of `losses` to make room
  int64_t steps = 0, results = 0;
};

void Trainer::State::initialise() {
  StepProgram& p = any_program();
  for (const model::Parameter& parameter : p.values.parameters) {
    const std::vector<double> values =
        initial_values(parameter, graph::element_count(parameter.view), config.debug.seed);
    write_parameter(p, parameter, encode(values, dtype()));
  }
  storage.parameters_changed();
}

// `values`: the whole parameter in file order, of the training type; this rank writes its slice.
void Trainer::State::write_parameter(StepProgram& p, const model::Parameter& parameter,
                                     const std::vector<std::byte>& values) {
  void* address = p.program->address(parameter.value);
  if (address == nullptr) return;
  std::vector<std::byte> bytes = from_file_order(parameter, values, graph::dtype_bytes(dtype()));
  if (const parallel::ShardedParameter* part = sharded(p, parameter))
    bytes = parallel::cut(bytes, part->dims, part->split);
  const parallel::FlatLayout* const layout = layout_of_parts(p, parameter);
  if (layout == nullptr) return write(address, bytes);
  // Each ZeRO partition will be on one rank only, so all must come from the same file: rank 0's.
  collectives()->broadcast(bytes.data(), bytes.size(), 0, parallel::kGradientsCommunicator);
  const graph::Value& view = p.graph().value(parameter.value);
  auto* const shard = static_cast<std::byte*>(p.program->address(view.base));
  for (const parallel::Held& h : parallel::held(*layout, {view.offset, view.offset + bytes.size()},
                                                strategy.batch.rank, strategy.batch.world_size)) {
    const std::byte* const from = bytes.data() + (h.begin - view.offset);
    write(shard + h.at, {from, from + (h.end - h.begin)});
  }
}

// The layout of the parameter's flat buffer if ranks hold ZeRO partitions of it (stage 3), else
// null.
const parallel::FlatLayout* Trainer::State::layout_of_parts(
    const StepProgram& p, const model::Parameter& parameter) const {
  const parallel::StepBuffers& buffers = p.values.buffers;
  const ValueId base = p.graph().value(parameter.value).base;
  if (!holds_parts(3) || base == kNone) return nullptr;
  return base == buffers.frozen ? &buffers.frozen_layout : &buffers.layout;
}

// A whole flat buffer, of which ranks hold partitions from `zero_stage` on; empty if it is not
// used.
std::vector<std::byte> Trainer::State::flat_bytes(const StepProgram& p, ValueId flat,
                                                  const parallel::FlatLayout& layout,
                                                  int zero_stage) {
  const void* const address = p.program->address(flat);
  if (address == nullptr || layout.bytes == 0) return {};
  if (!holds_parts(zero_stage)) return read(address, layout.bytes);
  const std::vector<std::byte> own = read(address, layout.bytes / strategy.batch.world_size);
  std::vector<std::byte> all(layout.bytes);
  collectives()->all_gather(own.data(), all.data(), own.size(), parallel::kGradientsCommunicator);
  return parallel::join_shards(all, layout, strategy.batch.world_size);
}

// Divides the gradients of float16 steps by the scale of the loss.
std::vector<std::byte> Trainer::State::unscaled(std::vector<std::byte> gradients) {
  const std::optional<LossScaling> scaling = loss_scaling();
  if (!scaling) return gradients;
  for (size_t at = 0; at < gradients.size(); at += sizeof(float)) {
    float g;
    std::memcpy(&g, gradients.data() + at, sizeof(g));
    g = static_cast<float>(g / scaling->scale);
    std::memcpy(gradients.data() + at, &g, sizeof(g));
  }
  return gradients;
}

const parallel::ShardedParameter* Trainer::State::sharded(const StepProgram& p,
                                                          const model::Parameter& parameter) const {
  if (p.values.sharded.empty()) return nullptr;
  return &p.values.sharded[&parameter - p.values.parameters.data()];
}

// Collects a parameter's values or gradient (canonical; empty: not on this rank) from the ranks of
// the tensor and pipeline axes: the whole tensor, on every rank, in file order.
std::vector<std::byte> Trainer::State::joined(const StepProgram& p,
                                              const model::Parameter& parameter,
                                              std::vector<std::byte> bytes) {
  const uint64_t element = graph::dtype_bytes(dtype());
  if (!strategy.model_parallel()) return to_file_order(parameter, bytes, element);
  // The bytes of each rank, 0 if it has none; then its data, padded to the largest.
  std::vector<double> sizes(collectives()->world_size());
  sizes[collectives()->rank()] = static_cast<double>(bytes.size());
  collectives()->all_reduce(sizes.data(), sizes.size(), RT_SUM);
  const auto largest = static_cast<uint64_t>(*std::max_element(sizes.begin(), sizes.end()));
  bytes.resize(largest);
  std::vector<std::byte> all(largest * sizes.size());
  collectives()->all_gather(bytes.data(), all.data(), largest);
  std::vector<std::vector<std::byte>> found;
  for (int tensor = 0; tensor < strategy.mesh.tensor; ++tensor) {
    for (int stage = 0; stage < strategy.mesh.pipeline; ++stage) {
      const int rank = strategy.mesh.rank_of({strategy.place.data, tensor, stage});
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(rank * largest);
      if (sizes[rank] == 0) continue;
      found.emplace_back(from, from + static_cast<std::ptrdiff_t>(sizes[rank]));
      break;
    }
  }
  if (found.empty()) return {};
  const parallel::ShardedParameter* part = sharded(p, parameter);
  return to_file_order(parameter,
                       part == nullptr ? found[0] : parallel::join(found, part->dims, part->split),
                       element);
}

// The ranks that hold the same slices of the model.
std::vector<int> Trainer::State::replicas() const {
  std::vector<int> ranks;
  for (int i = 0; i < strategy.mesh.data; ++i)
    ranks.push_back(strategy.mesh.rank_of({i, strategy.place.tensor, strategy.place.pipeline}));
  return ranks;
}

// The parameters are equal already, unless the files or programs of the ranks differ.
void Trainer::State::broadcast_parameters() {
  if (collectives() == nullptr) return;
  StepProgram& p = any_program();
  for (const model::Parameter& parameter : p.values.parameters) {
    if (p.program->address(parameter.value) == nullptr || layout_of_parts(p, parameter) != nullptr)
      continue;
    const uint64_t size = graph::canonical_bytes(p.graph().value(parameter.value));
    std::vector<std::byte> bytes = read(p.program->address(parameter.value), size);
    collectives()->broadcast(bytes.data(), bytes.size(), 0, parallel::kGradientsCommunicator);
    write(p.program->address(parameter.value), bytes);
  }
  storage.parameters_changed();
}

// Measures the samples a second of each rank, with equal numbers of samples; the ranks' samples
// will be in proportion to that.
void Trainer::State::measure_speed() {
  const int64_t rows = nominal_rows();
  StepProgram& p = get(whole(Purpose::kMicroStep, rows));
  const data::Batch zeros = data::zero_batch(spec, rows);
  double seconds = 0;
  for (int i = 0; i <= kProbeSteps; ++i) {
    upload(p, zeros, 0, 0, 0);
    stream.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    p.program->run(stream);
    stream.synchronize();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (i == 1 || (i > 1 && elapsed.count() < seconds)) seconds = elapsed.count();
  }
  const double speed = static_cast<double>(rows) / seconds;
  strategy.batch.weights.resize(strategy.batch.world_size);
  collectives()->all_gather(&speed, strategy.batch.weights.data(), sizeof(double));
}

void Trainer::State::agree(const data::Batch& batch, const std::vector<StepForm>& forms) {
  if (collectives() == nullptr || !agreed.insert(batch.global_rows).second) return;
  std::vector<std::string> list;
  for (const StepForm& form : forms) {
    // Collectives of the other axes have sizes that depend on the samples of a rank.
    const exec::Program& program = *get(form).program;
    for (std::string& item : program.collective_list(parallel::kStatisticsCommunicator))
      list.push_back(std::move(item));
  }
  collectives()->compare(
      "collective (of a step of " + std::to_string(batch.global_rows) + " samples)", list,
      replicas());
}

// Queues the micro-steps of a batch; returns the program of the last one, which has the results.
StepProgram& Trainer::State::run(const std::vector<StepForm>& forms, const data::Batch& batch,
                                 double learning_rate, int64_t step) {
  int64_t row = 0;
  for (const StepForm& form : forms) {
    StepProgram& p = get(form);
    upload(p, batch, row, learning_rate, step);
    p.program->run(stream);
    row += form.rows * strategy.batch.shards_of_rank();
  }
  return get(forms.back());
}

StepProgram& Trainer::State::infer(const data::Batch& batch) {
  StepProgram& p = get(whole(Purpose::kEvaluation, batch.rows));
  upload(p, batch, 0, 0, steps);
  p.program->run(stream);
  return p;
}

std::vector<const model::Parameter*> Trainer::State::statistics() {
  std::vector<const model::Parameter*> result;
  for (const model::Parameter& parameter : any_program().values.parameters) {
    if (!parameter.trainable && any_program().program->address(parameter.value) != nullptr)
      result.push_back(&parameter);
  }
  return result;
}

Trainer::Trainer(const config::Config& config, const data::SampleSpec& spec,
                 std::shared_ptr<plugins::host::Device> device, const exec::CompileOptions& options)
    : state_(std::make_unique<State>(config, spec, std::move(device), options)) {
  State& s = *state_;
  s.losses = std::make_unique<LossWindow>(s.device, s.dtype());
  if (s.collectives() != nullptr && config.parallelism.share == "by_speed") s.measure_speed();
  s.initialise();
  if (!config.model.init_from.empty())
    set_weights(data::read_safetensors(config.model.init_from), config.model.init_from,
                config.model.init_except);
  s.broadcast_parameters();
}

Trainer::~Trainer() = default;

const parallel::BatchSplit& Trainer::split() const { return state_->strategy.batch; }

void Trainer::step(const data::Batch& batch, double learning_rate) {
  State& s = *state_;
  const std::vector<StepForm>& forms = s.forms(Purpose::kTraining, batch);
  s.agree(batch, forms);
  StepProgram& last = s.run(forms, batch, learning_rate, s.steps);
  if (s.losses->full()) s.early.push_back({s.results++, *s.losses->pop(true)});
  s.losses->push(s.stream, last.program->address(last.values.loss));
  ++s.steps;
}

std::optional<StepResult> Trainer::next_result(bool wait) {
  State& s = *state_;
  if (!s.early.empty()) {
    const StepResult result = s.early.front();
    s.early.pop_front();
    return result;
  }
  const std::optional<double> loss = s.losses->pop(wait);
  if (!loss) return std::nullopt;
  return StepResult{s.results++, *loss};
}

std::optional<LossScaling> Trainer::loss_scaling() { return state_->loss_scaling(); }

Evaluation Trainer::evaluate(data::Loader& loader) {
  State& s = *state_;
  share_statistics();
  const int64_t batches = loader.batches_per_epoch();
  std::vector<double> sums(3 * batches, 0.0);  // for each batch: loss, correct answers, samples
  for (int64_t i = s.rank(); i < batches; i += s.world_size()) {
    const data::Batch& batch = loader.next();
    const StepProgram& p = s.infer(batch);
    sums[3 * i] = s.read_scalar(p, p.values.loss) * static_cast<double>(batch.valid);
    if (p.values.correct != kNone) sums[3 * i + 1] = s.read_scalar(p, p.values.correct);
    sums[3 * i + 2] = static_cast<double>(batch.valid);
  }
  // Other ranks may need this rank's ZeRO partition of the parameters once more.
  if (s.holds_parts(3) && batches % s.world_size() > 0 && s.rank() >= batches % s.world_size()) {
    const data::Batch zeros = data::zero_batch(s.spec, 1);
    s.infer(zeros);
    s.stream.synchronize();
  }
  if (s.collectives() != nullptr) {
    s.collectives()->all_reduce(sums.data(), sums.size(), RT_SUM, parallel::kGradientsCommunicator);
  }
  double loss = 0, correct = 0, samples = 0;
  for (int64_t i = 0; i < batches; ++i) {
    loss += sums[3 * i];
    correct += sums[3 * i + 1];
    samples += sums[3 * i + 2];
  }
  const double divisor = std::max(samples, 1.0);
  return {loss / divisor, correct / (divisor * static_cast<double>(s.spec.labels)),
          static_cast<int64_t>(samples)};
}

std::vector<double> Trainer::outputs(const data::Batch& batch) {
  State& s = *state_;
  const StepProgram& p = s.infer(batch);
  const graph::Value& value = p.program->graph().value(p.values.output);
  const std::vector<std::byte> bytes =
      converted({value.dtype, value.dims,
                 s.read(p.program->address(p.values.output), graph::canonical_bytes(value))},
                RT_FLOAT64);
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

data::TensorFile Trainer::gradients(const data::Batch& batch, std::optional<int64_t> step) {
  State& s = *state_;
  const std::vector<StepForm>& forms = s.forms(Purpose::kGradients, batch);
  StepProgram& p = s.run(forms, batch, 0, step.value_or(s.steps));
  data::TensorFile file;
  const auto tensor = [&](ValueId id, const void* address) {
    const graph::Value& value = p.program->graph().value(id);
    return data::HostTensor{value.dtype, value.dims,
                            s.read(address, graph::canonical_bytes(value))};
  };
  // The reduced gradients, whatever buffer a virtual shard or micro-step has written.
  const std::vector<std::byte> reduced =
      s.unscaled(s.flat_bytes(p, p.values.buffers.gradients, p.values.buffers.layout, 2));
  for (size_t i = 0; i < p.values.parameters.size(); ++i) {
    const model::Parameter& parameter = p.values.parameters[i];
    const void* const address = p.program->address(parameter.value);
    if (parameter.trainable && step::matches_any(s.config.model.freeze, parameter.name)) continue;
    std::vector<std::byte> own;
    if (parameter.trainable && p.values.gradients[i] != kNone) own = slice(reduced, p, i);
    if (!parameter.trainable && address != nullptr)
      own = s.read(address, graph::canonical_bytes(p.graph().value(parameter.value)));
    data::HostTensor t{s.dtype(), parameter.file_dims, s.joined(p, parameter, std::move(own))};
    const std::string name = (parameter.trainable ? "" : "after.") + parameter.name;
    if (!t.bytes.empty()) file.tensors.emplace(name, std::move(t));
  }
  if (s.collectives() == nullptr && forms.size() == 1 && p.values.shards.size() == 1)
    file.tensors.emplace("logits", tensor(p.values.output, p.program->address(p.values.output)));
  file.tensors.emplace("loss", tensor(p.values.loss, p.program->address(p.values.loss)));
  return file;
}

data::TensorFile Trainer::weights() {
  State& s = *state_;
  StepProgram& p = s.any_program();
  data::TensorFile file;
  const parallel::StepBuffers& b = p.values.buffers;
  const std::map<ValueId, std::vector<std::byte>> flat = {
      {b.parameters, s.flat_bytes(p, b.parameters, b.layout, 3)},
      {b.frozen, s.flat_bytes(p, b.frozen, b.frozen_layout, 3)}};
  for (size_t i = 0; i < p.values.parameters.size(); ++i) {
    const model::Parameter& parameter = p.values.parameters[i];
    const graph::Value& value = p.graph().value(parameter.value);
    std::vector<std::byte> own;
    if (const auto in = flat.find(value.base); in != flat.end()) {
      own = slice(in->second, p, i);
    } else if (const void* const address = p.program->address(parameter.value)) {
      own = s.read(address, graph::canonical_bytes(value));
    }
    file.tensors.emplace(parameter.name, data::HostTensor{s.dtype(), parameter.file_dims,
                                                          s.joined(p, parameter, std::move(own))});
  }
  file.metadata["format"] = "pt";
  if (!s.spec.characters.empty()) file.metadata["characters"] = s.spec.characters;
  return file;
}

void Trainer::set_weights(const data::TensorFile& file, const std::string& path,
                          const std::vector<std::string>& except) {
  State& s = *state_;
  StepProgram& p = s.any_program();
  check_characters(file, s.spec.characters, path);
  check_weights(file, p.values.parameters, path, except);
  for (const model::Parameter& parameter : p.values.parameters) {
    if (step::matches_any(except, parameter.name)) continue;
    s.write_parameter(p, parameter, converted(file.tensors.at(parameter.name), s.dtype()));
  }
  s.storage.parameters_changed();
}

void Trainer::share_statistics() {
  State& s = *state_;
  if (s.collectives() == nullptr) return;
  StepProgram& p = s.any_program();
  std::vector<std::byte> all;
  for (const model::Parameter* parameter : s.statistics()) {
    const std::vector<std::byte> one =
        s.read(p.program->address(parameter->value),
               graph::canonical_bytes(p.graph().value(parameter->value)));
    all.insert(all.end(), one.begin(), one.end());
  }
  if (all.empty()) return;
  s.collectives()->broadcast(all.data(), all.size(), 0, parallel::kGradientsCommunicator);
  const std::byte* from = all.data();
  for (const model::Parameter* parameter : s.statistics()) {
    const uint64_t bytes = graph::canonical_bytes(p.graph().value(parameter->value));
    s.write(p.program->address(parameter->value), {from, from + bytes});
    from += bytes;
  }
}

std::vector<double> Trainer::maximum(std::vector<double> values) {
  if (state_->collectives() != nullptr)
    state_->collectives()->all_reduce(values.data(), values.size(), RT_MAX);
  return values;
}

void Trainer::check_replicas() {
  State& s = *state_;
  if (s.collectives() == nullptr) return;
  StepProgram& p = s.any_program();
  const std::vector<std::byte> bytes =
      s.flat_bytes(p, p.values.buffers.parameters, p.values.buffers.layout, 3);
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

exec::Program& Trainer::program() { return *state_->any_program().program; }

void Trainer::run_collectives(int communicator) {
  State& s = *state_;
  for (const StepForm& form : s.full_step())
    s.get(form).program->run_collectives(s.stream, communicator);
}

plugins::host::Stream& Trainer::stream() { return state_->stream; }

void Trainer::upload(const data::Batch& batch, double learning_rate) {
  State& s = *state_;
  s.upload(s.any_program(), batch, 0, learning_rate, s.steps);
}

exec::CollectiveTimes Trainer::take_collective_times() {
  return state_->collectives() == nullptr ? exec::CollectiveTimes{}
                                          : state_->collectives()->take_times();
}

const std::vector<std::string>& Trainer::notes() const { return state_->notes; }

int64_t Trainer::steps_done() const { return state_->steps; }

void Trainer::set_steps_done(int64_t steps) { state_->steps = steps; }

StepPrograms& Trainer::programs() { return *state_; }

bool Trainer::classification() const { return state_->spec.classes > 0; }

int64_t Trainer::parameter_count() const {
  int64_t count = 0;
  for (const model::Parameter& parameter : state_->any_program().values.parameters) {
    if (parameter.trainable) count += graph::element_count(parameter.file_dims);
  }
  return count;
}

}  // namespace runtime::train
