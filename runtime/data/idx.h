// The IDX format of MNIST (http://yann.lecun.com/exdb/mnist, "the IDX file format"): two zero
// bytes, element type, rank, big-endian dimensions, big-endian elements. Plain or gzip.
#ifndef RUNTIME_DATA_IDX_H_
#define RUNTIME_DATA_IDX_H_

#include <string>

#include "runtime/data/array.h"

namespace runtime::data {

// Throws DataError naming file, offset, expected and actual.
Array read_idx(const std::string& path);
// The same from memory; `name` is used in messages.
Array parse_idx(const void* data, std::size_t size, const std::string& name);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_IDX_H_
