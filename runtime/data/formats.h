// The file formats: options -> parts. Each function throws DataError.
#ifndef RUNTIME_DATA_FORMATS_H_
#define RUNTIME_DATA_FORMATS_H_

#include <optional>
#include <string>

#include "runtime/data/open.h"
#include "runtime/data/part.h"

namespace runtime::data {

// Two files of a part, features and targets.
struct FilePair {
  std::string features;
  std::string targets;
};

struct Parts {
  Part train;
  std::optional<Part> validation;
};

// `validation` null: none.
Parts load_idx(const FilePair& train, const FilePair* validation, const DatasetOptions& options);
Parts load_npy(const FilePair& train, const FilePair* validation, const DatasetOptions& options);
Parts load_csv(const std::string& train, const std::string& validation,
               const DatasetOptions& options);
// CIFAR-10's binary files: data_batch_1.bin .. data_batch_5.bin and test_batch.bin in `folder`.
Parts load_cifar10(const std::string& folder, bool with_validation);
// A folder for each class, or two such folders, train and val; not yet split.
DatasetPair open_images(const DatasetOptions& options);
// Formats text and tokens.
DatasetPair open_text(const DatasetOptions& options);

// Searches `options.search_path` for a well-known data set, and fills in its folder and constants.
// Throws DataError naming every folder searched and what to install.
DatasetOptions resolve_well_known(const DatasetOptions& options);
// MNIST's file names in `folder`, plain or .gz.
FilePair mnist_files(const std::string& folder, const std::string& prefix);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_FORMATS_H_
