// The options that describe a data set, and the splits that opening one gives.
#ifndef RUNTIME_DATA_DATASET_OPTIONS_H_
#define RUNTIME_DATA_DATASET_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/preparation.h"

namespace runtime::data {

struct RecordsPair;

// Where a named input of the samples comes from: a file, or columns of a table.
struct InputSource {
  std::string name;
  std::string path, validation_path;      // NPY files; "": columns
  std::vector<std::string> columns = {};  // csv: names or numbers from 0
  bool integers = false;                  // int32, else float32
};

// The section [dataset] of the configuration in the types of this room; names and defaults are the
// same.
struct DatasetOptions {
  std::string name;  // a known data set or "synthetic"; "" if a format is given
  // idx | cifar10 | csv | npy | images | text | tokens | synthetic, or "<plugin>.<name>"
  std::string format;
  // idx: the file of images, or a folder with the four files under MNIST's names. cifar10: the
  // folder. csv: the table. npy: the features. images: the folder. text, tokens: the file. With the
  // name of a known data set: its folder, or "" to search for it.
  std::string path;
  std::string target_path;  // idx: labels; npy: labels or targets
  std::string validation_path;
  std::string validation_target_path;
  std::vector<InputSource> inputs;    // idx, npy, cifar10, csv
  std::vector<std::string> features;  // csv: names or numbers from 0; empty: all but the others
  std::vector<std::string> texts;     // sentences: columns with one text or two
  std::string target;                 // csv, sentences: name or number from 0; -1: the last column
  // csv, sentences: whether the first line is the header; nothing: its fields tell
  std::optional<bool> header = std::nullopt;
  bool classification = true;   // classification; otherwise regression
  bool masked_token = false;    // text, tokens: some tokens are hidden, which are to be filled in
  double mask_share = 0;        // of the tokens, which are hidden
  std::string mask_token;       // the token that stands for a hidden one
  bool next_token = false;      // synthetic, plugins: the samples are windows of tokens
  double validation_split = 0;  // 0..1: taken from the end of the training samples
  int64_t samples = 0;          // synthetic: number of samples
  int64_t classes = 0;          // 0: taken from the data
  int64_t targets = 1;          // synthetic regression: numbers in the target of a sample
  // synthetic: [height, width, channels] or [features]; text, tokens: [context length]; images: the
  // last number is the channels.
  std::vector<int64_t> shape;
  std::vector<int64_t> resize;           // [height, width] in pixels
  int64_t resize_shorter = 0;            // see Bilinear
  std::vector<double> mean, std;         // of each channel
  bool standardize = false;              // by statistics of the training samples
  uint64_t seed = 0;                     // of synthetic data
  std::string tokenizer;                 // text: char | byte | gpt2 | hf; tokens: not char, or ""
  std::string tokenizer_path;            // gpt2: folder with vocab.json and merges.txt; hf: file
  bool replaces_invalid_utf8 = false;    // text: bytes that are none become U+FFFD, else an error
  std::string token_type = "uint16";     // tokens: uint16 | uint32
  std::string separator;                 // text, tokens: the token that ends a document; "": none
  int64_t stride = 0;                    // text, tokens: tokens between samples; 0: context length
  std::vector<std::string> search_path;  // folders that are searched for well-known data sets
  // How the data of the model were prepared that will see the samples: statistics and names are
  // taken from it; null: they are taken from the training samples.
  std::shared_ptr<const Preparation> preparation = nullptr;
  bool needs_targets = true;  // false: files without labels or targets are read as well
  // Whether the processes of this machine that open the same text or CSV table with the same
  // options read it once, and share its memory.
  bool shared = false;
  // Opens the records of a format of a plugin; null: there are no plugins. See records.h.
  std::function<RecordsPair(const DatasetOptions&)> open_records = nullptr;
  // Whether features are shifted and scaled before the model sees them.
  bool normalises() const { return standardize || !mean.empty() || !std.empty(); }
};

// The opened splits of a data set.
struct DatasetPair {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;  // null: there is none
  Preparation preparation = {};
  bool labelled = true;  // false: the files have no targets, which are 0
  // Sentences for the user about the files, for example which were found, and which skipped.
  std::vector<std::string> notes = {};
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_DATASET_OPTIONS_H_
