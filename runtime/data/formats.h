// The file formats: each function reads the splits that its options name, and throws DataError.
#ifndef RUNTIME_DATA_FORMATS_H_
#define RUNTIME_DATA_FORMATS_H_

#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset_options.h"
#include "runtime/data/inputs.h"
#include "runtime/data/part.h"

namespace runtime::data {

// The two files of one split.
struct FilePair {
  std::string features;
  std::string targets;
};

// The splits of a data set before normalisation.
struct Parts {
  Part train;
  std::optional<Part> validation;
  std::vector<std::string> columns = {}, class_names = {};  // as in Preparation
  bool named = false;                                       // as in Preparation
  bool labelled = true;                                     // as in DatasetPair
  // Inputs that were columns of the tables.
  std::vector<InputColumn> inputs = {}, validation_inputs = {};
};

// Null or an empty name means that there is no validation file. `read` reads a file of one array:
// read_idx or read_npy.
using ReadArray = Array (*)(const std::string& path);
Parts load_arrays(ReadArray read, const FilePair& train, const FilePair* validation,
                  const DatasetOptions& options);
Parts load_csv(const std::string& train, const std::string& validation,
               const DatasetOptions& options);
// Reads CIFAR-10's binary files data_batch_1.bin to data_batch_5.bin and test_batch.bin in
// `folder`.
Parts load_cifar10(const std::string& folder, bool with_validation);
// Opens a folder with one folder for each class, or two such folders named train and val. The
// caller applies validation_split.
DatasetPair open_images(const DatasetOptions& options);
// Open data sets of these formats, which divide the tokens by validation_split.
DatasetPair open_text(const DatasetOptions& options);
DatasetPair open_tokens(const DatasetOptions& options);

// Opens tables whose columns dataset.texts hold one text or two for each sample.
DatasetPair open_sentences(const DatasetOptions& options);

// Searches `options.search_path` for a well-known data set, and returns the options with its folder
// and constants filled in. Throws DataError that names every folder searched and what to install.
DatasetOptions resolve_well_known(const DatasetOptions& options);
// The title of the data set in messages; nullptr: that of its files.
const char* well_known_title(const std::string& name);
// Returns the paths of MNIST's files in `folder`, plain or .gz; `prefix` is "train" or "t10k".
FilePair mnist_files(const std::string& folder, const std::string& prefix);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_FORMATS_H_
