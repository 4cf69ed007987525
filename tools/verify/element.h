// Where an element of a tensor lies.
#ifndef TOOLS_VERIFY_ELEMENT_H_
#define TOOLS_VERIFY_ELEMENT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace runtime::verify {

// The indices of element number `flat` of a tensor of the shape `dims` stored by rows.
// Equivalent to: numpy.unravel_index.
inline std::vector<int64_t> index_of(size_t flat, const std::vector<int64_t>& dims) {
  std::vector<int64_t> index(dims.size());
  auto rest = static_cast<int64_t>(flat);
  for (size_t i = dims.size(); i-- > 0;) {
    const int64_t length = std::max<int64_t>(1, dims[i]);
    index[i] = rest % length;
    rest /= length;
  }
  return index;
}

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_ELEMENT_H_
