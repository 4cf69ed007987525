// The command gradients: writes loss, logits and gradients of one batch.
#include <cstring>
#include <iostream>

#include "runtime/cli/commands.h"
#include "runtime/error.h"
#include "runtime/session/session.h"
#include "runtime/train/open.h"

namespace runtime::cli {

namespace {

template <typename T>
data::HostTensor tensor(rt_dtype dtype, std::vector<int64_t> dims, const T* from, size_t count) {
  data::HostTensor t{dtype, std::move(dims), std::vector<std::byte>(count * sizeof(T))};
  std::memcpy(t.bytes.data(), from, t.bytes.size());
  return t;
}

void add_batch(const data::Batch& batch, const data::SampleSpec& spec, data::TensorFile& file) {
  std::vector<int64_t> dims = spec.shape;
  dims.insert(dims.begin(), batch.rows);
  file.tensors["features"] = tensor(RT_FLOAT32, dims, batch.features.data(), batch.features.size());
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const data::SampleInput& input = spec.inputs[i];
    const data::InputNumbers& from = batch.inputs[i];
    std::vector<int64_t> shape = input.shape;
    shape.insert(shape.begin(), batch.rows);
    file.tensors["inputs." + input.name] =
        input.integers ? tensor(RT_INT32, shape, from.integers.data(), from.integers.size())
                       : tensor(RT_FLOAT32, shape, from.floats.data(), from.floats.size());
  }
  if (spec.classes > 0) {
    dims = {batch.rows};
    if (spec.labels > 1) dims.push_back(spec.labels);
    file.tensors["labels"] = tensor(RT_INT32, dims, batch.labels.data(), batch.labels.size());
  } else {
    file.tensors["targets"] =
        tensor(RT_FLOAT32, {batch.rows, spec.targets}, batch.targets.data(), batch.targets.size());
  }
}

void write_gradients(session::Session& session, const GradientsArguments& arguments) {
  data::Loader loader(session.data.train,
                      train::train_loader_options(session.config, session.trainer->split()));
  const data::Batch* batch = &loader.next();
  for (int64_t i = 0; i < arguments.batch; ++i) batch = &loader.next();
  data::TensorFile weights = session.trainer->weights();  // before running statistics change
  data::TensorFile file = session.trainer->gradients(*batch, arguments.batch);
  if (!session.rank.main()) return;
  session::print_notes(*session.programs);
  for (auto& [name, t] : weights.tensors) file.tensors["weights." + name] = std::move(t);
  if (session.rank.place.world_size == 1) add_batch(*batch, session.data.train->spec(), file);
  data::write_safetensors(arguments.output, file);
  std::cout << arguments.output << ": " << file.tensors.size() << " tensors of batch "
            << arguments.batch << std::endl;
}

}  // namespace

void run_gradients(const GradientsArguments& arguments, Outcome& outcome) {
  config::Config config = arguments.config.load();
  if (!arguments.weights.empty()) start_from(config.model, arguments.weights);
  outcome.exit_code = session::run_sessions(
      config, host_services(), outcome.arguments,
      [&](session::Session& session) { write_gradients(session, arguments); });
}

}  // namespace runtime::cli
