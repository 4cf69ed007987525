// Opens the data sets of a run, and makes the options of its batches and programs, as the
// configuration says.
#ifndef RUNTIME_TRAIN_OPEN_H_
#define RUNTIME_TRAIN_OPEN_H_

#include <memory>
#include <string>

#include "plugins/host/registry.h"
#include "runtime/config/config.h"
#include "runtime/data/loader.h"
#include "runtime/data/open.h"
#include "runtime/exec/compile_options.h"
#include "runtime/parallel/batch_split.h"

namespace runtime::train {

// `search_path`: the value of RUNTIME_DATA_PATH, null if unset. Relative files of [dataset] that
// are not in the working folder are searched in its folders; throws DataError, which lists all
// places tried.
data::DatasetOptions data_options(const config::Config& config, const char* search_path);
// What the data are opened for, if not for training.
struct DataUse {
  std::string weights;        // the data are prepared as those that these weights were trained on
  bool needs_targets = true;  // false: samples without labels are read as well
  bool shared = false;        // see DatasetOptions::shared
};
// `registry` has the plugins that may read the samples; null: none. Throws DataError if the data
// differ by a name or a key from those of `use.weights`, or have to be standardised and the weights
// do not say how.
data::DatasetPair open_data(const config::Config& config, const char* search_path,
                            const plugins::host::Registry* registry = nullptr,
                            const DataUse& use = {});

// Returns a sentence if the training data cannot fill a global batch, with the sizes and a remedy;
// "" if they can.
std::string batch_advice(const config::Config& config, const data::Dataset& train);

// Returns a sentence if the numbers that the model has to predict are far from the size of its
// outputs at the start, with their size and a remedy; "" if they are not, or are classes.
std::string target_advice(const config::Config& config, const data::Dataset& train);

// For training batches of the rank that `split` describes.
data::LoaderOptions train_loader_options(const config::Config& config,
                                         const parallel::BatchSplit& split = {});
// For a rank that evaluates: the ranks take whole batches in turn.
data::LoaderOptions validation_loader_options(const config::Config& config, int rank = 0,
                                              int world_size = 1);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_OPEN_H_
