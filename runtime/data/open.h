// Opens the data set that a configuration describes.
#ifndef RUNTIME_DATA_OPEN_H_
#define RUNTIME_DATA_OPEN_H_

#include <string>
#include <vector>

#include "runtime/data/dataset_options.h"

namespace runtime::data {

// Opens a data set. Throws DataError for files that cannot be used and ConfigurationError for
// options that contradict each other. With validation_split, the validation files that a well-known
// data set comes with are not used.
DatasetPair open_dataset(const DatasetOptions& options);

// The names of the formats that this room opens, of the data sets that it finds by name, and of the
// tokenizers.
std::vector<std::string> format_names();
std::vector<std::string> well_known_names();
std::vector<std::string> tokenizer_names();

// Whether files of this format are tables of text, which are cheap to read and often have fields
// that cannot be used.
bool is_table(const std::string& format);

// Returns the folders in the value of RUNTIME_DATA_PATH, which are separated by colons. If `value`
// is null, they are /usr/local/share/datasets and /usr/share/datasets.
std::vector<std::string> split_search_path(const char* value);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_OPEN_H_
