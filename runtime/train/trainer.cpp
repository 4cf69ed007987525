#include "runtime/train/trainer.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <tuple>

#include "runtime/error.h"
#include "runtime/train/loss_window.h"
#include "runtime/train/model_from_config.h"
#include "runtime/train/weights.h"

namespace runtime::train {

namespace {

using graph::kNone;
using graph::ValueId;

// A step's graph and its program.
struct StepProgram {
  StepGraph step;
  std::unique_ptr<exec::Program> program;
};

rt_dtype to_dtype(const std::string& name) { return name == "float64" ? RT_FLOAT64 : RT_FLOAT32; }

}  // namespace

std::string resolve_loss(const config::Training& training, const data::SampleSpec& spec) {
  const std::string natural = spec.classes > 0 ? "cross_entropy" : "mean_squared_error";
  if (training.loss == "auto" || training.loss == natural) return natural;
  throw ConfigurationError("training.loss = \"" + training.loss +
                           "\" does not fit a data set for " +
                           (spec.classes > 0 ? "classification" : "regression") + "; use \"" +
                           natural + "\" or \"auto\"");
}

struct Trainer::State {
  State(const config::Config& c, const data::SampleSpec& s,
        std::shared_ptr<plugins::host::Device> d, const exec::CompileOptions& o)
      : config(c),
        spec(s),
        device(std::move(d)),
        options(o),
        model(model_from_config(c.model)),
        dtype(to_dtype(c.training.dtype)),
        loss(resolve_loss(c.training, s)),
        stream(device->create_stream()),
        storage(device),
        arena(device),
        losses(device, dtype) {
    check_input();
  }

  // The model's input as the data set has it: [H, W, C] -> [C, H, W].
  void check_input() const {
    std::vector<int64_t> given = spec.shape;
    if (given.size() == 3) given = {given[2], given[0], given[1]};
    if (given != model.input) {
      throw ConfigurationError("model.input is " + graph::to_string(model.input) +
                               ", the data set has samples of " + graph::to_string(given) +
                               "; set model.input, or dataset.resize for images");
    }
  }

  StepOptions step_options(Purpose purpose, int64_t rows) const {
    StepOptions o;
    o.purpose = purpose;
    o.batch = rows;
    o.dtype = dtype;
    o.loss = loss;
    o.targets = spec.targets;
    o.optimizer = config.optimizer;
    o.max_norm = config.training.max_norm;
    o.seed = config.debug.seed;
    o.freeze = config.model.freeze;
    return o;
  }

  StepProgram& get(Purpose purpose, int64_t rows) {
    const auto it = programs.find({purpose, rows});
    if (it != programs.end()) return it->second;
    StepGraph step = build_step(model, step_options(purpose, rows));
    check_classes(step);
    stream.synchronize();  // a larger arena replaces the one that queued work still uses
    exec::Compiled compiled = exec::compile(step.graph, device, storage, arena, options);
    for (std::string& note : compiled.notes) {
      if (std::find(notes.begin(), notes.end(), note) == notes.end())
        notes.push_back(std::move(note));
    }
    if (step.one != kNone)
      write(storage.buffer("one", graph::dtype_bytes(dtype)), encode({1.0}, dtype));
    return programs
        .emplace(std::pair(purpose, rows),
                 StepProgram{std::move(step), std::move(compiled.program)})
        .first->second;
  }

  void check_classes(const StepGraph& step) const {
    const graph::Dims& out = step.graph.value(step.output).dims;
    if (loss == "cross_entropy" && out.back() < spec.classes) {
      throw ConfigurationError("the model's last layer has " + std::to_string(out.back()) +
                               " outputs, the data set " + std::to_string(spec.classes) +
                               " classes; give the last layer at least that many features");
    }
  }

  void write(void* address, const std::vector<std::byte>& bytes) {
    stream.copy(address, bytes.data(), bytes.size());
    stream.synchronize();
  }

  std::vector<std::byte> read(const void* address, uint64_t bytes) {
    std::vector<std::byte> out(bytes);
    stream.copy(out.data(), address, bytes);
    stream.synchronize();
    return out;
  }

  void upload_scalar(StepProgram& p, ValueId id, double value) {
    if (id == kNone) return;
    alignas(8) std::byte bytes[8];
    uint64_t size = 8;
    if (p.step.graph.value(id).dtype == RT_INT64) {
      const auto v = static_cast<int64_t>(value);
      std::memcpy(bytes, &v, 8);
    } else if (dtype == RT_FLOAT64) {
      std::memcpy(bytes, &value, 8);
    } else {
      const auto v = static_cast<float>(value);
      std::memcpy(bytes, &v, size = 4);
    }
    stream.copy(p.program->address(id), bytes, size);
  }

  // Copies float32 numbers of the host into a value of the training type.
  void upload_numbers(StepProgram& p, ValueId id, const float* from, size_t count) {
    if (dtype == RT_FLOAT32) {
      stream.copy(p.program->address(id), from, count * sizeof(float));
      return;
    }
    widened.assign(from, from + count);
    stream.copy(p.program->address(id), widened.data(), count * sizeof(double));
  }

  void upload(StepProgram& p, const data::Batch& batch, double learning_rate) {
    upload_numbers(p, p.step.features, batch.features.data(), batch.features.size());
    if (spec.classes > 0) {
      stream.copy(p.program->address(p.step.target), batch.labels.data(),
                  batch.labels.size() * sizeof(int32_t));
    } else {
      upload_numbers(p, p.step.target, batch.targets.data(), batch.targets.size());
    }
    weight.assign(batch.rows, 0.0f);
    weight_wide.assign(batch.rows, 0.0);
    for (int64_t i = 0; i < batch.valid; ++i) {
      weight_wide[i] = 1.0 / static_cast<double>(batch.valid);
      weight[i] = static_cast<float>(weight_wide[i]);
    }
    if (dtype == RT_FLOAT64) {
      stream.copy(p.program->address(p.step.weight), weight_wide.data(),
                  batch.rows * sizeof(double));
    } else {
      stream.copy(p.program->address(p.step.weight), weight.data(), batch.rows * sizeof(float));
    }
    upload_scalar(p, p.step.learning_rate, learning_rate);
    upload_scalar(p, p.step.step, static_cast<double>(steps + 1));
    upload_scalar(p, p.step.dropout_step, static_cast<double>(steps));
    upload_scalar(p, p.step.sample_base, 0);
  }

  config::Config config;
  data::SampleSpec spec;
  std::shared_ptr<plugins::host::Device> device;
  exec::CompileOptions options;
  model::Model model;
  rt_dtype dtype;
  std::string loss;
  plugins::host::Stream stream;
  exec::Storage storage;
  exec::Arena arena;
  LossWindow losses;
  std::map<std::pair<Purpose, int64_t>, StepProgram> programs;
  std::vector<std::string> notes;
  std::vector<double> widened, weight_wide;
  std::vector<float> weight;
  std::deque<StepResult> early;  // results taken out of the window to make room
  int64_t steps = 0, results = 0;
};

Trainer::Trainer(const config::Config& config, const data::SampleSpec& spec,
                 std::shared_ptr<plugins::host::Device> device, const exec::CompileOptions& options)
    : state_(std::make_unique<State>(config, spec, std::move(device), options)) {
  // The graph of any batch size tells the parameters; this one will be needed.
  StepProgram& p = state_->get(Purpose::kTraining, config.training.global_batch_size);
  for (const model::Parameter& parameter : p.step.parameters) {
    const std::vector<double> values =
        initial_values(parameter, graph::element_count(parameter.view), config.debug.seed);
    void* address = p.program->address(parameter.value);
    if (address == nullptr) continue;
    state_->write(address, from_file_order(parameter, encode(values, state_->dtype),
                                           graph::dtype_bytes(state_->dtype)));
  }
  state_->storage.parameters_changed();
  if (!config.model.init_from.empty())
    set_weights(data::read_safetensors(config.model.init_from), config.model.init_from);
}

Trainer::~Trainer() = default;

void Trainer::step(const data::Batch& batch, double learning_rate) {
  State& s = *state_;
  StepProgram& p = s.get(Purpose::kTraining, batch.rows);
  s.upload(p, batch, learning_rate);
  p.program->run(s.stream);
  if (s.losses.full()) s.early.push_back({s.results++, *s.losses.pop(true)});
  s.losses.push(s.stream, p.program->address(p.step.loss));
  ++s.steps;
}

std::optional<StepResult> Trainer::next_result(bool wait) {
  State& s = *state_;
  if (!s.early.empty()) {
    const StepResult result = s.early.front();
    s.early.pop_front();
    return result;
  }
  const std::optional<double> loss = s.losses.pop(wait);
  if (!loss) return std::nullopt;
  return StepResult{s.results++, *loss};
}

Evaluation Trainer::evaluate(data::Loader& loader) {
  State& s = *state_;
  Evaluation total;
  for (int64_t i = 0; i < loader.batches_per_epoch(); ++i) {
    const data::Batch& batch = loader.next();
    StepProgram& p = s.get(Purpose::kEvaluation, batch.rows);
    s.upload(p, batch, 0);
    p.program->run(s.stream);
    const auto scalar = [&](ValueId id) {
      const std::vector<std::byte> bytes =
          s.read(p.program->address(id), graph::dtype_bytes(s.dtype));
      return s.dtype == RT_FLOAT64
                 ? *reinterpret_cast<const double*>(bytes.data())
                 : static_cast<double>(*reinterpret_cast<const float*>(bytes.data()));
    };
    total.loss += scalar(p.step.loss) * static_cast<double>(batch.valid);
    if (p.step.correct != kNone) total.accuracy += scalar(p.step.correct);
    total.samples += batch.valid;
  }
  const auto samples = static_cast<double>(std::max<int64_t>(total.samples, 1));
  total.loss /= samples;
  total.accuracy /= samples;
  return total;
}

data::TensorFile Trainer::gradients(const data::Batch& batch) {
  State& s = *state_;
  StepProgram& p = s.get(Purpose::kGradients, batch.rows);
  s.upload(p, batch, 0);
  p.program->run(s.stream);
  data::TensorFile file;
  const auto tensor = [&](ValueId id) {
    const graph::Value& value = p.step.graph.value(id);
    return data::HostTensor{value.dtype, value.dims,
                            s.read(p.program->address(id), graph::canonical_bytes(value))};
  };
  for (size_t i = 0; i < p.step.parameters.size(); ++i) {
    if (p.step.gradients[i] == kNone) continue;
    data::HostTensor t = tensor(p.step.gradients[i]);
    t.bytes = to_file_order(p.step.parameters[i], t.bytes, graph::dtype_bytes(t.dtype));
    t.dims = p.step.parameters[i].file_dims;
    file.tensors.emplace(p.step.parameters[i].name, std::move(t));
  }
  file.tensors.emplace("logits", tensor(p.step.output));
  file.tensors.emplace("loss", tensor(p.step.loss));
  return file;
}

data::TensorFile Trainer::weights() {
  State& s = *state_;
  StepProgram& p = s.get(Purpose::kTraining, s.config.training.global_batch_size);
  data::TensorFile file;
  for (const model::Parameter& parameter : p.step.parameters) {
    const graph::Value& value = p.step.graph.value(parameter.value);
    const std::vector<std::byte> bytes =
        s.read(p.program->address(parameter.value), graph::canonical_bytes(value));
    file.tensors.emplace(
        parameter.name,
        data::HostTensor{value.dtype, parameter.file_dims,
                         to_file_order(parameter, bytes, graph::dtype_bytes(value.dtype))});
  }
  file.metadata["format"] = "pt";
  return file;
}

void Trainer::set_weights(const data::TensorFile& file, const std::string& path) {
  State& s = *state_;
  StepProgram& p = s.get(Purpose::kTraining, s.config.training.global_batch_size);
  check_weights(file, p.step.parameters, path);
  for (const model::Parameter& parameter : p.step.parameters) {
    const std::vector<std::byte> bytes = converted(file.tensors.at(parameter.name), s.dtype);
    s.write(p.program->address(parameter.value),
            from_file_order(parameter, bytes, graph::dtype_bytes(s.dtype)));
  }
  s.storage.parameters_changed();
}

exec::Program& Trainer::program(Purpose purpose, int64_t rows) {
  return *state_->get(purpose, rows).program;
}

plugins::host::Stream& Trainer::stream() { return state_->stream; }

void Trainer::upload(Purpose purpose, const data::Batch& batch, double learning_rate) {
  state_->upload(state_->get(purpose, batch.rows), batch, learning_rate);
}

const std::vector<std::string>& Trainer::notes() const { return state_->notes; }

int64_t Trainer::steps_done() const { return state_->steps; }

bool Trainer::classification() const { return state_->spec.classes > 0; }

int64_t Trainer::parameter_count() const {
  int64_t count = 0;
  for (const auto& [key, p] : state_->programs) {
    for (const model::Parameter& parameter : p.step.parameters) {
      if (parameter.trainable) count += graph::element_count(parameter.file_dims);
    }
    break;
  }
  return count;
}

}  // namespace runtime::train
