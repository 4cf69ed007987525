// Data sets made from another one: a range of its samples, its images at another size.
#ifndef RUNTIME_DATA_VIEWS_H_
#define RUNTIME_DATA_VIEWS_H_

#include <memory>

#include "runtime/data/dataset.h"

namespace runtime::data {

// Samples begin..end-1 of `base`. Throws DataError for an empty range or one outside the data set.
std::shared_ptr<const Dataset> range_of(std::shared_ptr<const Dataset> base, int64_t begin,
                                        int64_t end);

// Images [h, w, c] interpolated bilinearly to [height, width, c] at every read, with half-pixel
// centres and no smoothing (PyTorch's interpolate with align_corners = False). Throws DataError
// when the samples are not images.
std::shared_ptr<const Dataset> resized(std::shared_ptr<const Dataset> base, int64_t height,
                                       int64_t width);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_VIEWS_H_
