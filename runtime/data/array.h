// A dense array as a file holds it: element type, dimensions, bytes. What IDX and NPY have in
// common.
#ifndef RUNTIME_DATA_ARRAY_H_
#define RUNTIME_DATA_ARRAY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/source.h"

namespace runtime::data {

enum class ElementType {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat32,
  kFloat64
};
std::size_t element_size(ElementType type);
const char* element_name(ElementType type);
bool is_floating(ElementType type);

struct Array {
  ElementType type = ElementType::kUint8;
  std::vector<int64_t> dims;  // row-major; the first one counts samples
  Bytes bytes;                // in the byte order of this machine
  std::string name;           // of the file, for messages
  uint64_t data_offset = 0;   // of the first element in the file, for messages
  int64_t elements() const;
};

// "60000x28x28"; "scalar" for none.
std::string shape_text(const std::vector<int64_t>& dims);

// Reads the elements of an array whose header was just read, after checking its size against what
// the source can hold; then expects the end. Throws DataError.
void read_elements(Source& source, Array& array);

// Numbers as float32; NaN, Inf and overflow are refused.
std::vector<float> to_floats(const Array& array);

// Largest number of classes that is believed; more is an error in the data.
inline constexpr int64_t kMaxClasses = 1 << 20;

// Class labels from integers, [n] or [n, 1], each in 0..classes-1; classes 0: 0..kMaxClasses-1.
std::vector<int32_t> to_labels(const Array& array, int64_t classes);

// Files of one array, or the same from memory, where `name` is used in messages. They throw
// DataError naming file, offset, expected and actual.
//
// The IDX format of MNIST (http://yann.lecun.com/exdb/mnist, "the IDX file format"): two zero
// bytes, element type, rank, big-endian dimensions, big-endian elements. Plain or gzip.
Array read_idx(const std::string& path);
Array parse_idx(const void* data, std::size_t size, const std::string& name);
// NumPy's NPY format, versions 1 and 2 (numpy.lib.format): magic, version, header length, a Python
// dictionary as text, elements. C-order and little-endian only.
Array read_npy(const std::string& path);
Array parse_npy(const void* data, std::size_t size, const std::string& name);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_ARRAY_H_
