// The search for the largest batch size that fits.
#ifndef TOOLS_TUNE_BATCH_SEARCH_H_
#define TOOLS_TUNE_BATCH_SEARCH_H_

#include <cstdint>
#include <functional>

namespace tools::tune {

struct BatchSearch {
  int64_t start = 16;               // the first size
  int64_t most = int64_t{1} << 24;  // no larger size is tried; at least `start`
  int64_t multiple = 1;             // sizes are multiples of it, except that `most` counts as given
  // The search ends when the smallest size that does not fit is larger than the largest one that
  // fits by at most this share of the latter, or by `multiple`.
  double precision = 0;
};

// Returns the largest size for which `fits` is true, 0 if there is none, under the assumption that
// every size below one that fits does, too. Doubles from `start` while sizes fit (and halves while
// `start` does not), then bisects. Calls `fits` at most once for each size.
int64_t largest_that_fits(const BatchSearch& search, const std::function<bool(int64_t)>& fits);

}  // namespace tools::tune

#endif  // TOOLS_TUNE_BATCH_SEARCH_H_
