// What the configuration says of compiling, of the threads of a rank and of labels, as the rooms
// below take it.
#ifndef RUNTIME_TRAIN_OPTIONS_H_
#define RUNTIME_TRAIN_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "plugins/host/device.h"
#include "runtime/config/config.h"
#include "runtime/data/batch.h"
#include "runtime/data/dataset.h"
#include "runtime/exec/compile_options.h"

namespace runtime::train {

// The threads that a rank may use beside those of its device: device.threads, or one for each core.
// At least 1.
int threads_of_rank(const config::Config& config);

// Throws ConfigurationError unless samples of the data set, which are [H, W, C] or [features], are
// the model's input, which is [C, H, W] or [features].
void check_input(const std::vector<int64_t>& input, const data::SampleSpec& spec);

// Tuning, determinism, decision cache and recording, from [device] and [debug]. `fallback`: the
// device of device.host_fallback (launch::open_fallback), or null.
exec::CompileOptions compile_options(const config::Config& config,
                                     std::shared_ptr<plugins::host::Device> fallback = nullptr);

// The weights of labels, from training.class_weights and ignore_label.
data::LabelWeights label_weights(const config::Config& config);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_OPTIONS_H_
