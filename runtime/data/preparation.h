// A trained model needs more than its weights: how its data were prepared, and what its
// classes are called.
#ifndef RUNTIME_DATA_PREPARATION_H_
#define RUNTIME_DATA_PREPARATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/standardize.h"

namespace runtime::data {

// Preparation is what happened to the training samples before the model saw them. The same must
// happen to all samples that the model sees later, whatever file they come from. An empty member
// means that the data have no such thing.
struct Preparation {
  std::vector<std::string> columns;      // csv: the features in their order, by name or number
  bool named = false;                    // csv: the table had a header, which names them
  std::vector<std::string> class_names;  // in the order of the labels; empty: labels are numbers
  int64_t classes = 0, targets = 0;      // as in SampleSpec
  FeatureStatistics features;            // of dataset.standardize
  std::vector<double> mean, std;         // of each channel
  std::vector<int64_t> resize;           // [height, width] in pixels
  int64_t resize_shorter = 0;
  std::string tokenizer, characters;  // the characters in the order of their ids, in UTF-8
};

// Writes a preparation as JSON, which keeps the bits of its numbers, and reads it. The second
// function throws DataError, which begins with `where`.
std::string to_json(const Preparation& preparation);
Preparation parse_preparation(const std::string& json, const std::string& where);

// Returns the statistics of each of `features` features. Throws DataError if the preparation has
// none, or those of another number; `name` is the file whose features are standardised.
const FeatureStatistics& known_statistics(const Preparation& preparation, int64_t features,
                                          const std::string& name);

// Throws DataError that names each key and name in which the data of now are prepared otherwise
// than those of `saved`, which `where` (a file of weights, a checkpoint) holds. Columns are
// compared only if both have some.
void check_same(const Preparation& saved, Preparation now, const std::string& where);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_PREPARATION_H_
