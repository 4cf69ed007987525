#include "runtime/train/step_programs.h"

#include <algorithm>
#include <cstring>

#include "runtime/error.h"
#include "runtime/graph/recompute.h"
#include "runtime/train/asynchronous.h"
#include "runtime/train/model_from_config.h"
#include "runtime/train/ranks.h"
#include "runtime/train/trainer.h"
#include "runtime/train/weights.h"

namespace runtime::train {

namespace {

using graph::kNone;
using graph::ValueId;

// The size of the first bucket in PyTorch's DistributedDataParallel.
constexpr uint64_t kFirstBucketBytes = 1 << 20;
// With ZeRO stages 2 and 3 a few buckets at a time are in memory, so there must be many of them.
constexpr uint64_t kZeroBuckets = 16;

rt_dtype to_dtype(const std::string& name) { return name == "float64" ? RT_FLOAT64 : RT_FLOAT32; }

// The type of activations; 0 without mixed precision.
rt_dtype activation_type(const config::Training& training, plugins::host::Device& device) {
  if (training.mixed_precision == "none") return 0;
  const rt_dtype dtype = training.mixed_precision == "f16" ? RT_FLOAT16 : RT_BFLOAT16;
  if ((device.properties().compute_dtypes & RT_DTYPE_BIT(dtype)) != 0) return dtype;
  throw DeviceError("training.mixed_precision = \"" + training.mixed_precision +
                    "\": " + device.id() + " (" + device.properties().name +
                    ") does not compute in " + (dtype == RT_FLOAT16 ? "float16" : "bfloat16") +
                    "; use another device.backend (runtime devices lists their types), or "
                    "mixed_precision = \"none\"");
}

bool contains_batch_norm(const std::vector<model::Layer>& layers) {
  return std::any_of(layers.begin(), layers.end(), [](const model::Layer& layer) {
    if (const auto* block = std::get_if<model::Block>(&layer.kind))
      return contains_batch_norm(block->layers);
    if (const auto* residual = std::get_if<model::Residual>(&layer.kind))
      return contains_batch_norm(residual->layers) || contains_batch_norm(residual->shortcut);
    return std::holds_alternative<model::BatchNorm>(layer.kind);
  });
}

// Checks that the model's input is that of the data set, whose samples are [H, W, C] instead of [C,
// H, W].
void check_input(const model::Model& model, const data::SampleSpec& spec) {
  std::vector<int64_t> given = spec.shape;
  if (given.size() == 3) given = {given[2], given[0], given[1]};
  if (given == model.input) return;
  throw ConfigurationError("model.input is " + graph::to_string(model.input) +
                           ", the data set has samples of " + graph::to_string(given) +
                           "; set model.input, or dataset.resize for images");
}

// The bytes that a stage of the pipeline may take: those of the rank with the least memory, so that
// the number is the same on every rank.
uint64_t stage_memory(plugins::host::Device& device, exec::Collectives* collectives,
                      const ModelParallel& parts) {
  double least = static_cast<double>(device.memory_info().total_bytes);
  if (collectives != nullptr) {
    least = -least;
    collectives->all_reduce(&least, 1, RT_MAX);
    least = -least;
  }
  return static_cast<uint64_t>(least) / parts.schedule.chunks;
}

ModelParallel make_parts(const config::Config& config, plugins::host::Device& device,
                         exec::Collectives* collectives,
                         const std::optional<PlannedRank>& planned) {
  if (!planned && collectives == nullptr) return {};
  const config::Parallelism& p = config.parallelism;
  const int rank = planned ? planned->rank : collectives->rank();
  const int ranks = planned ? planned->world_size : collectives->world_size();
  ModelParallel parts = model_parallel(p, mesh_of(p, ranks), rank);
  parts.only_planned = planned.has_value();
  if (parts.mesh.pipeline == 1) return parts;
  parts.stage_memory = stage_memory(device, planned ? nullptr : collectives, parts);
  const config::Optimizer& o = config.optimizer;
  parts.parameter_copies = o.name == "adamw" ? 4 : o.momentum != 0 ? 3 : 2;
  if (config.training.mixed_precision != "none") parts.parameter_copies += 0.5;
  return parts;
}

parallel::BatchSplit make_split(const config::Config& config, const ModelParallel& parts) {
  parallel::BatchSplit split;
  split.rank = parts.place.data;
  split.world_size = parts.mesh.data;
  if (parts.mesh.pipeline > 1) split.pipelined = parts.schedule.micro_batches;
  split.micro_batch = config.training.micro_batch_size;
  if (config.debug.deterministic) split.virtual_shards = config.debug.virtual_shards;
  return split;
}

}  // namespace

StepPrograms::StepPrograms(const config::Config& c, const data::SampleSpec& s,
                           std::shared_ptr<plugins::host::Device> d, const exec::CompileOptions& o,
                           const std::optional<PlannedRank>& planned)
    : config(c),
      spec(s),
      device(std::move(d)),
      options(o),
      model(model_from_config(c.model)),
      dtype(to_dtype(c.training.dtype)),
      activations(activation_type(c.training, *device)),
      loss(resolve_loss(c.training, s)),
      parts(make_parts(c, *device, o.collectives, planned)),
      split(make_split(c, parts)),
      stream(device->create_stream()),
      storage(device, planned.has_value()),
      arena(device, planned.has_value()),
      has_batch_norm_(contains_batch_norm(model.layers)) {
  check_input(model, spec);
  agree_on_stages();
  if (c.debug.deterministic && has_batch_norm_ && several()) {
    notes.push_back(
        "debug.deterministic implies parallelism.sync_batch_norm: batch_norm normalises over the "
        "global batch, so that the bits do not depend on the number of ranks");
  }
}

StepKey StepPrograms::whole(Purpose purpose, int64_t rows) const {
  StepKey key{purpose, rows};
  if (purpose == Purpose::kEvaluation) return key;
  const bool shards = split.virtual_shards > 0;
  key.split_batch_norm =
      has_batch_norm_ && (shards || (several() && config.parallelism.sync_batch_norm));
  const int micro_batches = std::max(1, split.pipelined);
  key.l2_share = 1.0 / (shards ? split.virtual_shards : split.world_size * micro_batches);
  return key;
}

const std::vector<StepKey>& StepPrograms::keys(Purpose purpose, const data::Batch& batch) {
  const bool padded = batch.valid < batch.rows;
  const auto [known, is_new] = keys_.try_emplace({purpose, batch.global_rows, batch.rows, padded});
  std::vector<StepKey>& keys = known->second;
  if (!is_new) return keys;
  const int64_t steps = parallel::micro_steps(batch.global_rows, split);
  StepKey key = whole(purpose, batch.rows / (steps * split.shards_of_rank()));
  key.split_batch_norm |= has_batch_norm_ && padded;
  key.l2_share /= static_cast<double>(steps);
  keys.assign(steps, key);
  for (int64_t i = 0; i < steps; ++i) {
    keys[i].accumulate = i > 0;
    if (i + 1 < steps) keys[i].purpose = Purpose::kMicroStep;
  }
  return keys;
}

const std::vector<StepKey>& StepPrograms::full_step() {
  data::Batch full;
  full.global_rows = config.training.global_batch_size;
  const std::vector<int64_t> rows = parallel::rows_of_rank(full.global_rows, split);
  full.rows = static_cast<int64_t>(rows.size());
  full.valid = full.rows - std::count(rows.begin(), rows.end(), -1);
  return keys(Purpose::kTraining, full);
}

StepOptions StepPrograms::step_options(const StepKey& key) const {
  StepOptions o;
  o.purpose = key.purpose;
  o.batch = key.rows;
  o.dtype = dtype;
  o.activations = activations;
  o.loss = loss;
  o.targets = spec.targets;
  o.optimizer = config.optimizer;
  o.max_norm = config.training.max_norm;
  o.seed = config.debug.seed;
  o.freeze = config.model.freeze;
  o.split_batch_norm = key.split_batch_norm;
  o.l2_share = key.l2_share;
  o.model_parallel = parts;
  if (key.purpose == Purpose::kEvaluation) {
    o.model_parallel.schedule.backward = false;
    o.model_parallel.schedule.micro_batches = 1;
  }
  o.flat.world_size = split.world_size;
  if (several() && split.virtual_shards == 0) {
    o.flat.bucket_bytes = static_cast<uint64_t>(config.comm.bucket_mb * (1 << 20));
    o.flat.first_bucket_bytes = std::min(o.flat.bucket_bytes, kFirstBucketBytes);
    if (config.parallelism.zero_stage > 1) o.flat.buckets = kZeroBuckets;
  }
  return o;
}

parallel::DistributeOptions StepPrograms::distribute_options(const StepKey& key,
                                                             const StepGraph& step) const {
  parallel::DistributeOptions o;
  if (step.pipeline) o.pipeline = &*step.pipeline;
  o.rank = split.rank;
  o.world_size = split.world_size;
  o.overlap = config.comm.overlap;
  const int zero_stage = config.parallelism.zero_stage;
  if (key.purpose == Purpose::kTraining || zero_stage > 1) o.zero_stage = zero_stage;
  o.sync_batch_norm = config.parallelism.sync_batch_norm;
  o.accumulate = key.accumulate;
  o.reduce = key.purpose != Purpose::kMicroStep;
  if (split.virtual_shards > 0 && key.purpose != Purpose::kEvaluation) {
    o.shards = split.shards_of_rank();
    o.total_shards = split.virtual_shards;
  }
  return o;
}

StepProgram& StepPrograms::get(const StepKey& key) {
  const auto it = programs_.find(key);
  if (it != programs_.end()) return it->second;
  StepProgram p;
  const bool loss_scaled = storage.find(kLossScaling) != nullptr;
  p.step = build_step(model, step_options(key));
  check_classes(p.step);
  check_tokens(p.step);
  check_recompute(p.step);
  stream.synchronize();  // a larger arena would replace the one that queued work still uses
  const auto distribute = [&](graph::Graph& graph) {
    if (config.training.recompute == "blocks") graph::recompute(graph, p.step.blocks);
    p.values = parallel::distribute(
        graph, p.step.buffers, {p.step.features, p.step.target, p.step.weight, p.step.sample_base},
        distribute_options(key, p.step));
  };
  exec::Compiled compiled =
      exec::compile(p.step.graph, device, storage, arena, options, distribute);
  p.program = std::move(compiled.program);
  for (const graph::Value& value : p.program->graph().values) {
    if (value.kind == graph::ValueKind::kInput)
      p.input_bytes += exec::Upload::rounded(graph::canonical_bytes(value));
  }
  most_input_bytes = std::max(most_input_bytes, p.input_bytes);
  compiled.notes.insert(compiled.notes.end(), p.step.notes.begin(), p.step.notes.end());
  for (std::string& note : compiled.notes) {
    if (std::find(notes.begin(), notes.end(), note) == notes.end())
      notes.push_back(std::move(note));
  }
  if (void* const one = p.address(p.step.one)) write(one, encode({1.0}, dtype));
  if (void* const state = p.address(p.step.loss_scaling); state != nullptr && !loss_scaled)
    write(state, encode({RT_LOSS_SCALE_INITIAL, 0, 0}, dtype));
  return programs_.emplace(key, std::move(p)).first->second;
}

StepProgram& StepPrograms::any_program() {
  const bool apart = is_asynchronous(config, world_size());  // the owners update the parameters
  return get(whole(apart ? Purpose::kMicroStep : Purpose::kTraining, nominal_rows()));
}

int64_t StepPrograms::nominal_rows() const { return nominal_rows_of(split.rank); }

int64_t StepPrograms::nominal_rows_of(int rank) const {
  parallel::BatchSplit its = split;
  its.rank = rank;
  const auto rows =
      static_cast<int64_t>(parallel::rows_of_rank(config.training.global_batch_size, its).size());
  const int64_t steps = parallel::micro_steps(config.training.global_batch_size, its);
  return rows / (steps * its.shards_of_rank());
}

// All ranks use the cut of the first rank of the data and tensor axes. Its tensor-parallel slices
// and its samples are the largest, and the other ranks wait for it.
void StepPrograms::agree_on_stages() {
  if (parts.mesh.pipeline == 1) return;
  StepOptions first = step_options(whole(Purpose::kTraining, nominal_rows_of(0)));
  first.model_parallel.place = {};
  parts.stages = build_step(model, first).pipeline->stages.layers;
}

void StepPrograms::check_classes(const StepGraph& step) const {
  const graph::Dims& out = step.graph.value(step.output).dims;
  if (loss != "cross_entropy") return;
  const int64_t predictions = graph::element_count(out) / (out[0] * out.back());
  if (predictions != spec.labels) {
    throw ConfigurationError(
        "the model's output is " + graph::to_string(out) + ", " + std::to_string(predictions) +
        (predictions == 1 ? " prediction" : " predictions") + " a sample, the data set has " +
        std::to_string(spec.labels) + (spec.labels == 1 ? " label" : " labels") +
        " a sample; a language model keeps the positions of its input, a classifier ends with "
        "vectors");
  }
  if (step.predictions < spec.classes) {
    throw ConfigurationError("the model's last layer has " + std::to_string(step.predictions) +
                             " outputs, the data set " + std::to_string(spec.classes) +
                             " classes; give the last layer at least that many features");
  }
}

void StepPrograms::check_recompute(const StepGraph& step) const {
  if (config.training.recompute == "none" || !step.blocks.empty()) return;
  throw ConfigurationError(
      "training.recompute = \"blocks\", but the model has neither a residual nor a repeated block "
      "with prefix = true; set it to \"none\", or repeat a block of layers");
}

// Checks that token ids are below the number of rows of the table in which they are looked up.
void StepPrograms::check_tokens(const StepGraph& step) const {
  if (spec.labels == 1) return;
  std::map<ValueId, ValueId> casts;
  const auto origin = [&](ValueId v) { return casts.contains(v) ? casts.at(v) : v; };
  for (const graph::Node& node : step.graph.nodes) {
    if (node.op == RT_OP_CAST) casts[node.outputs[0]] = node.inputs[0];
    if (node.op != RT_OP_EMBEDDING || origin(node.inputs[0]) != step.features) continue;
    const int64_t rows = step.whole_dims(origin(node.inputs[1]))[0];
    if (rows >= spec.classes) continue;
    throw ConfigurationError("layer '" + node.layer + "' has a vocabulary of " +
                             std::to_string(rows) + ", the data set " +
                             std::to_string(spec.classes) +
                             " different tokens; give the layer at least that vocabulary");
  }
}

void StepPrograms::write(void* address, const std::vector<std::byte>& bytes) {
  stream.copy(address, bytes.data(), bytes.size());
  stream.synchronize();
}

std::vector<std::byte> StepPrograms::read(const void* address, uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  stream.copy(out.data(), address, bytes);
  stream.synchronize();
  return out;
}

double StepPrograms::read_scalar(const StepProgram& p, ValueId id) {
  const std::vector<std::byte> bytes = read(p.program->address(id), graph::dtype_bytes(dtype));
  if (dtype == RT_FLOAT64) return *reinterpret_cast<const double*>(bytes.data());
  return *reinterpret_cast<const float*>(bytes.data());
}

std::optional<LossScaling> StepPrograms::loss_scaling() {
  const void* const state = storage.find(kLossScaling);
  if (state == nullptr) return std::nullopt;
  const std::vector<std::byte> bytes = read(state, 3 * sizeof(float));
  float numbers[3];
  std::memcpy(numbers, bytes.data(), sizeof(numbers));
  return LossScaling{numbers[0], static_cast<int64_t>(numbers[2])};
}

void StepPrograms::upload_scalar(StepProgram& p, ValueId id, double value) {
  void* const to = p.address(id);
  if (to == nullptr) return;
  alignas(8) std::byte bytes[8];
  uint64_t size = 8;
  if (p.program->graph().value(id).dtype == RT_INT64) {
    const auto v = static_cast<int64_t>(value);
    std::memcpy(bytes, &v, 8);
  } else if (dtype == RT_FLOAT64) {
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
  if (dtype == RT_FLOAT32) {
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
  weight_wide_.assign(rows * spec.labels, 0.0);
  for (int64_t i = 0; i < rows; ++i) {
    if (batch.positions[first_row + i] >= 0)
      std::fill_n(weight_wide_.begin() + i * spec.labels, spec.labels,
                  1.0 / static_cast<double>(batch.global_valid * spec.labels));
  }
  weight_.assign(weight_wide_.begin(), weight_wide_.end());
  const void* from =
      dtype == RT_FLOAT64 ? static_cast<const void*>(weight_wide_.data()) : weight_.data();
  upload_.copy(to, from, weight_.size() * graph::dtype_bytes(dtype));
}

void StepPrograms::upload(StepProgram& p, const data::Batch& batch, int64_t first_row,
                          double learning_rate, int64_t step) {
  const int64_t rows = p.step.graph.value(p.step.weight).dims[0];
  const size_t features = batch.features.size() / batch.rows;
  const size_t targets = batch.targets.size() / batch.rows;
  upload_.begin_step(p.input_bytes);
  for (const parallel::ShardValues& shard : p.values.shards) {
    upload_numbers(p, shard.features, batch.features.data() + first_row * features,
                   rows * features);
    if (spec.classes == 0) {
      upload_numbers(p, shard.target, batch.targets.data() + first_row * targets, rows * targets);
    } else if (void* const to = p.address(shard.target)) {
      upload_.copy(to, batch.labels.data() + first_row * spec.labels,
                   rows * spec.labels * sizeof(int32_t));
    }
    upload_weights(p, shard.weight, batch, first_row, rows);
    upload_scalar(p, shard.sample_base,
                  static_cast<double>(std::max<int64_t>(0, batch.positions[first_row])));
    first_row += rows;
  }
  upload_scalar(p, p.step.learning_rate, learning_rate);
  upload_scalar(p, p.step.step, static_cast<double>(step + 1));
  upload_scalar(p, p.step.dropout_step, static_cast<double>(step));
  upload_.end_step();
}

}  // namespace runtime::train
