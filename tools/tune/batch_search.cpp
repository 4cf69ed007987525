// Doubles the size until it does not fit, then bisects.
#include "tools/tune/batch_search.h"

#include <algorithm>
#include <cmath>

namespace tools::tune {

namespace {

int64_t rounded_down(int64_t size, int64_t multiple) { return size / multiple * multiple; }

}  // namespace

int64_t largest_that_fits(const BatchSearch& search, const std::function<bool(int64_t)>& fits) {
  const int64_t unit = search.multiple;
  int64_t good = 0, bad = 0;  // bad 0: none is known
  for (int64_t size = std::max(unit, rounded_down(search.start, unit)); size > 0 && bad == 0;) {
    fits(size) ? good = size : bad = size;
    if (good == search.most) return good;
    size = std::min(size * 2, search.most);
  }
  while (good == 0 && bad > unit) {
    const int64_t half = std::max(unit, rounded_down(bad / 2, unit));
    fits(half) ? good = half : bad = half;
  }
  if (good == 0) return 0;
  const auto is_near = [&] {
    return bad - good <=
           std::max(unit,
                    static_cast<int64_t>(std::floor(search.precision * static_cast<double>(good))));
  };
  while (!is_near()) {
    const int64_t middle = good + std::max(unit, rounded_down((bad - good) / 2, unit));
    fits(middle) ? good = middle : bad = middle;
  }
  return good;
}

}  // namespace tools::tune
