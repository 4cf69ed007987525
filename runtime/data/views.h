// Data sets made from another one: a range of its samples, its two splits, or its images at another
// size.
#ifndef RUNTIME_DATA_VIEWS_H_
#define RUNTIME_DATA_VIEWS_H_

#include <memory>
#include <string>

#include "runtime/data/bilinear.h"
#include "runtime/data/dataset_options.h"

namespace runtime::data {

// Returns the samples begin..end-1 of `base`. Throws DataError for an empty range or one outside of
// the data set.
std::shared_ptr<const Dataset> range_of(std::shared_ptr<const Dataset> base, int64_t begin,
                                        int64_t end);

// Returns how many of `count` samples (or tokens, as `what` says for messages) stay for training:
// floor(count * (1 - split)), where split is the decimal number that the user has written. Throws
// DataError if one part would be empty.
int64_t training_samples(int64_t count, double split, const std::string& what = "samples");

// Splits a data set: its first `training` samples are for training, the others, if there are any,
// for validation.
DatasetPair split_at(std::shared_ptr<const Dataset> all, int64_t training);

// Returns the images of `base`, resized each time they are read; see Bilinear. Throws DataError if
// the samples are not images.
std::shared_ptr<const Dataset> resized(std::shared_ptr<const Dataset> base, ImageSize size,
                                       int64_t shorter = 0);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_VIEWS_H_
