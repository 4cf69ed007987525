// Opens what a run needs from outside, as the configuration says: the device and the data sets.
#ifndef RUNTIME_TRAIN_OPEN_H_
#define RUNTIME_TRAIN_OPEN_H_

#include <memory>
#include <string>

#include "plugins/host/device.h"
#include "plugins/host/registry.h"
#include "runtime/config/config.h"
#include "runtime/data/loader.h"
#include "runtime/data/open.h"
#include "runtime/exec/compile.h"
#include "runtime/parallel/batch_split.h"

namespace runtime::train {

// The search path for plugins: [plugins] and the environment.
plugins::host::SearchPath plugin_search_path(const config::Config& config);

// The device of [device], or that of launch.devices, for a rank on this machine. choose_device
// neither opens it nor checks whether it is usable. With backend = "auto" it is the first usable
// device of cuda, rocm, cpu, reference, then of any other plugin, and `choice` (may be null) gets a
// line that names it and those passed over. The choice is made from descriptions; open_device loads
// only the plugin of the chosen device. Throws plugins::host::Error, or ConfigurationError for
// options in [device.<plugin>] that the plugin does not declare.
plugins::host::DeviceInfo choose_device(const config::Config& config,
                                        const plugins::host::Registry& registry, int local_rank,
                                        std::string* choice);
std::shared_ptr<plugins::host::Device> open_device(const config::Config& config,
                                                   const plugins::host::Registry& registry,
                                                   int local_rank, std::string* choice);

// `search_path`: the value of RUNTIME_DATA_PATH, null if unset. Relative files of [dataset] that
// are not in the working folder are searched in its folders; throws DataError, which lists all
// places tried.
data::DatasetOptions data_options(const config::Config& config, const char* search_path);
data::DatasetPair open_data(const config::Config& config, const char* search_path);

// Tuning, determinism, decision cache and recording, from [device] and [debug].
exec::CompileOptions compile_options(const config::Config& config);

// For training batches of the rank that `split` describes.
data::LoaderOptions train_loader_options(const config::Config& config,
                                         const parallel::BatchSplit& split = {});
// For a rank that evaluates: the ranks take whole batches in turn.
data::LoaderOptions validation_loader_options(const config::Config& config, int rank = 0,
                                              int world_size = 1);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_OPEN_H_
