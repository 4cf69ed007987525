// Runs the ranks of a job, with the faults that a test asks for, and gathers what each step
// computes.
#include "tests/runtime/train/ranks_trace.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "runtime/launch/job.h"
#include "runtime/launch/open_device.h"
#include "runtime/step/compile_step.h"
#include "runtime/step/ranks.h"
#include "runtime/train/open.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {

namespace {

std::string step_name(int step, const std::string& what) {
  char text[16];
  std::snprintf(text, sizeof(text), "%03d ", step);
  return text + what;
}

data::HostTensor vector(const std::vector<double>& values) {
  data::HostTensor t{RT_FLOAT64, {static_cast<int64_t>(values.size())}, {}};
  t.bytes.resize(values.size() * sizeof(double));
  std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}

// Compiles the program of the step again, without the collectives of one layer.
void leave_out(StepPrograms& programs, const step::StepForm& form, const std::string& layer) {
  StepProgram& p = programs.compiled(form);
  exec::DeviceTarget target(programs.setup().device, programs.setup().options.target);
  step::Step step = step::compile_step(
      {programs.setup().model, programs.setup().training, programs.setup().strategy, form}, target);
  const size_t removed = std::erase_if(step.graph.nodes, [&](const graph::Node& node) {
    return node.collective && node.layer == layer;
  });
  if (removed == 0) throw std::runtime_error("there is no collective of '" + layer + "'");
  p.values = std::move(step.values);
  exec::CompileOptions options = programs.setup().options;
  options.record = false;
  p.program =
      std::make_unique<exec::Program>(std::move(step.graph), programs.setup().device,
                                      programs.rank_model().storage(), programs.arena(), options);
}

// Flips a bit of the exponent, in float64. All ranks must call it; only a rank with `own` changes
// its weights.
void flip_a_bit(Trainer& trainer, const std::string& parameter, bool own) {
  data::TensorFile weights = trainer.weights();
  if (!own) return;
  std::vector<std::byte>& bytes =
      (parameter.empty() ? weights.tensors.begin()->second : weights.tensors.at(parameter)).bytes;
  bytes[bytes.size() - 2] ^= std::byte{0x10};
  trainer.set_weights(weights, "memory");
}

class Recorder {
 public:
  Recorder(const TraceOptions& options, launch::Rank& rank)
      : options_(options),
        rank_(rank),
        config_(step::resolve_ranks(rank.config, rank.place.world_size)),
        data_(open_data(config_, nullptr)) {
    exec::CompileOptions compile{
        {.tune = exec::Tune::kOff, .deterministic = config_.debug.deterministic}};
    compile.collectives = rank.collectives;
    const auto device =
        rank.device ? rank.device
                    : launch::open_device(config_, *rank.registry, rank.place.local_rank, nullptr);
    compile.target.fallback =
        launch::open_fallback(config_, *rank.registry, *device, rank.place.local_rank);
    programs_ =
        std::make_shared<StepPrograms>(RankSetup(config_, data_.train->spec(), device, compile));
    trainer_ = std::make_unique<Trainer>(programs_);
  }

  TraceResult run() {
    data::Loader loader(data_.train, train_loader_options(config_, trainer_->split()));
    for (int step = 0; step < options_.steps; ++step) one_step(step, loader.next());
    const int64_t batch = config_.training.global_batch_size;
    result_.share = parallel::shares(batch, trainer_->split())[trainer_->split().rank];
    if (data_.validation != nullptr) validate();
    return std::move(result_);
  }

 private:
  void one_step(int step, const data::Batch& batch) {
    if (!options_.left_out.empty()) {
      for (const step::Purpose purpose : {step::Purpose::kGradients, step::Purpose::kTraining})
        leave_out(*programs_, programs_->forms(purpose, batch)[0], options_.left_out);
    }
    data::TensorFile gradients = trainer_->gradients(batch);
    gradients.tensors.erase("logits");
    keep("loss of gradients", step, gradients.tensors.extract("loss").mapped());
    for (auto& [name, tensor] : gradients.tensors) keep("gradient " + name, step, tensor);
    trainer_->step(batch, config_.optimizer.lr);
    keep("loss", step, vector({trainer_->next_result(true)->loss}));
    for (auto& [name, tensor] : trainer_->weights().tensors) keep("weight " + name, step, tensor);
    if (options_.after_step) options_.after_step(*programs_, *trainer_, rank_.place.rank, step);
    if (step == options_.flip_after) {
      flip_a_bit(*trainer_, options_.flipped, rank_.place.rank == 1);
      trainer_->check_replicas();
    }
  }

  void validate() {
    const parallel::BatchSplit& split = trainer_->split();
    data::Loader loader(data_.validation,
                        validation_loader_options(config_, split.rank, split.world_size));
    const Evaluation e = trainer_->evaluate(loader);
    std::vector<double> values = {e.loss, e.accuracy, static_cast<double>(e.samples)};
    for (const NamedValue& number : e.metrics.numbers) values.push_back(number.value);
    for (const auto& row : e.metrics.confusion) values.insert(values.end(), row.begin(), row.end());
    result_.trace.tensors.emplace("validation", vector(values));
  }

  void keep(const std::string& what, int step, data::HostTensor tensor) {
    result_.trace.tensors.emplace(step_name(step, what), std::move(tensor));
  }

  const TraceOptions& options_;
  launch::Rank& rank_;
  config::Config config_;
  data::DatasetPair data_;
  std::shared_ptr<StepPrograms> programs_;
  std::unique_ptr<Trainer> trainer_;
  TraceResult result_;
};

}  // namespace

TraceResult record(const TraceOptions& options) {
  TraceResult result;
  result.exit_code =
      launch::run_ranks(options.config, {}, options.arguments, [&](launch::Rank& rank) {
        TraceResult own = Recorder(options, rank).run();
        if (rank.main()) result = std::move(own);
      });
  return result;
}

Difference largest_difference(const Trace& actual, const Trace& expected) {
  if (actual.tensors.size() != expected.tensors.size() || expected.tensors.empty())
    throw std::runtime_error("traces of " + std::to_string(actual.tensors.size()) + " and " +
                             std::to_string(expected.tensors.size()) + " tensors");
  Difference largest;
  for (const auto& [name, tensor] : expected.tensors) {
    const double error = test::relative_error(numbers(actual.tensors.at(name)), numbers(tensor));
    if (!(error <= largest.relative)) largest = {name, error};  // true for NaN as well
    if (std::isnan(error)) return largest;
  }
  return largest;
}

double mean_loss(const Trace& trace, int first, int count) {
  double sum = 0;
  for (int i = first; i < first + count; ++i)
    sum += numbers(trace.tensors.at(step_name(i, "loss")))[0];
  return sum / count;
}

}  // namespace runtime::train
