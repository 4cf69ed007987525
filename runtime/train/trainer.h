// One rank's model on one device: steps, evaluation, weights and gradients.
#ifndef RUNTIME_TRAIN_TRAINER_H_
#define RUNTIME_TRAIN_TRAINER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/device.h"
#include "runtime/config/config.h"
#include "runtime/data/loader.h"
#include "runtime/data/safetensors.h"
#include "runtime/exec/compile.h"
#include "runtime/train/step_graph.h"

namespace runtime::train {

struct Evaluation {
  double loss = 0;      // mean over the samples
  double accuracy = 0;  // classification only
  int64_t samples = 0;
};

// The result of a finished step.
struct StepResult {
  int64_t step = 0;  // from 0
  double loss = 0;
};

// One thread at a time; several trainers may live in one process. Everything throws the errors of
// runtime/error.h and plugins::host::Error.
class Trainer {
 public:
  // Makes parameters with their initial values (or model.init_from's). Programs are made when their
  // batch size comes up.
  Trainer(const config::Config& config, const data::SampleSpec& spec,
          std::shared_ptr<plugins::host::Device> device, const exec::CompileOptions& options);
  ~Trainer();

  // Queues one optimizer step. Allocates nothing after the first step of its batch size.
  void step(const data::Batch& batch, double learning_rate);
  // Losses of finished steps, in order. `wait`: waits for the oldest unfinished one; nullopt if
  // none is outstanding.
  std::optional<StepResult> next_result(bool wait);

  Evaluation evaluate(data::Loader& loader);

  // Forward and backward without update: the gradient of every trained parameter, PyTorch's names
  // and layouts, and "logits" and "loss" beside them.
  data::TensorFile gradients(const data::Batch& batch);

  data::TensorFile weights();
  void set_weights(const data::TensorFile& file, const std::string& path);

  // The program of a purpose and batch size (made if there is none yet), for `plan` and `bench`.
  exec::Program& program(Purpose purpose, int64_t rows);
  plugins::host::Stream& stream();
  // Copies a batch to where the program reads it.
  void upload(Purpose purpose, const data::Batch& batch, double learning_rate);
  const std::vector<std::string>& notes() const;
  int64_t steps_done() const;
  int64_t parameter_count() const;
  bool classification() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The loss that `auto` stands for.
std::string resolve_loss(const config::Training& training, const data::SampleSpec& spec);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_TRAINER_H_
