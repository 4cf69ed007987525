// Opens the data set that a configuration describes.
#ifndef RUNTIME_DATA_OPEN_H_
#define RUNTIME_DATA_OPEN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace runtime::data {

// [dataset] of the configuration in this room's words; names and defaults are the same there.
struct DatasetOptions {
  std::string name;    // of a known data set or synthetic, or "" with a format
  std::string format;  // idx | cifar10 | csv | npy | images | text | tokens | synthetic
  // idx: images, or a folder with the four files under MNIST's names. cifar10: folder. csv: table.
  // npy: features. text, tokens: the file. With a well-known name: the folder, "" to search for it.
  std::string path;
  std::string target_path;  // idx: labels; npy: labels or targets
  std::string validation_path;
  std::string validation_target_path;
  std::vector<std::string> features;  // csv columns by name or number from 0; empty: all but target
  std::string target;                 // csv column by name or number from 0, -1: the last one
  bool classification = true;         // else regression
  bool next_token = false;            // synthetic: tokens
  double validation_split = 0;        // 0..1: the last samples of the training part
  int64_t samples = 0;                // synthetic
  int64_t classes = 0;                // 0: from the data
  int64_t targets = 1;                // synthetic regression: numbers per sample
  std::vector<int64_t> shape;         // synthetic: [height, width, channels], [features]...
                                      // text, tokens: [context length]; images: of the channels
  std::vector<int64_t> resize;        // [height, width]
  int64_t resize_shorter = 0;         // see Bilinear
  std::vector<double> mean, std;      // per channel
  bool standardize = false;           // mean and deviation per feature, from the training part
  uint64_t seed = 0;                  // synthetic
  std::string tokenizer;              // text: char | byte | gpt2; tokens: byte | gpt2 | ""
  std::string tokenizer_path;         // gpt2: folder of vocab.json and merges.txt
  std::string token_type = "uint16";  // tokens: or uint32
  int64_t stride = 0;                 // text, tokens: between training samples; 0: the context
  std::vector<std::string> search_path;  // folders to search for well-known data sets
};

struct DatasetPair {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;  // null: none
};

// Throws DataError for files, ConfigurationError for options that do not belong together. A
// validation_split replaces the validation part that a well-known data set comes with.
DatasetPair open_dataset(const DatasetOptions& options);

// Whether the samples are those of a language model.
bool is_text(const DatasetOptions& options);

// The folders in RUNTIME_DATA_PATH (separated by colons); `value` null: /usr/local/share/datasets
// and /usr/share/datasets.
std::vector<std::string> split_search_path(const char* value);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_OPEN_H_
