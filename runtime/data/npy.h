// NumPy's NPY format, versions 1 and 2 (numpy.lib.format): magic, version, header length, a Python
// dictionary as text, elements.
#ifndef RUNTIME_DATA_NPY_H_
#define RUNTIME_DATA_NPY_H_

#include <string>

#include "runtime/data/array.h"

namespace runtime::data {

// C-order and little-endian only. Throws DataError naming file, offset, expected and actual.
Array read_npy(const std::string& path);
// The same from memory; `name` is used in messages.
Array parse_npy(const void* data, std::size_t size, const std::string& name);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_NPY_H_
