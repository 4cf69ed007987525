// What a run needs from outside, opened as the configuration says: the device and the data sets.
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

// The search path of [plugins] and the environment.
plugins::host::SearchPath plugin_search_path(const config::Config& config);

// The device of [device], or that of launch.devices, for a rank on this machine; choose_device does
// not open it, nor see whether it is usable. backend = "auto": the first usable one of cuda, rocm,
// cpu, reference, then of any other plugin; `choice` (may be null) gets a line that says what was
// taken and what was passed over. The choice is made from descriptions; only the plugin that was
// chosen is loaded, by open_device. Throws plugins::host::Error, or ConfigurationError for options
// in [device.<plugin>] that the plugin does not declare.
plugins::host::DeviceInfo choose_device(const config::Config& config,
                                        const plugins::host::Registry& registry, int local_rank,
                                        std::string* choice);
std::shared_ptr<plugins::host::Device> open_device(const config::Config& config,
                                                   const plugins::host::Registry& registry,
                                                   int local_rank, std::string* choice);

// `search_path`: the value of RUNTIME_DATA_PATH, null if unset. Relative files of [dataset] that
// are not in the working folder are looked for there too; throws DataError with all places tried.
data::DatasetOptions data_options(const config::Config& config, const char* search_path);
data::DatasetPair open_data(const config::Config& config, const char* search_path);

exec::CompileOptions compile_options(const config::Config& config);

// Of the rank that `split` is of.
data::LoaderOptions train_loader_options(const config::Config& config,
                                         const parallel::BatchSplit& split = {});
// Of a rank: whole batches in turn.
data::LoaderOptions validation_loader_options(const config::Config& config, int rank = 0,
                                              int world_size = 1);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_OPEN_H_
