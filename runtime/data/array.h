// A dense array as a file holds it: element type, dimensions and bytes. IDX and NPY files both
// become an Array.
#ifndef RUNTIME_DATA_ARRAY_H_
#define RUNTIME_DATA_ARRAY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/source.h"

namespace runtime::data {

// The types of elements that IDX and NPY files have.
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
// Bytes of one element.
std::size_t element_size(ElementType type);
// "uint8", "float32" and so on, for messages.
const char* element_name(ElementType type);
bool is_floating(ElementType type);
// Whether float32 represents each number of this type.
bool fits_float(ElementType type);

// The array of one file, in host memory that it owns.
struct Array {
  ElementType type = ElementType::kUint8;
  std::vector<int64_t> dims;  // row-major; the first dimension counts samples
  Bytes bytes;                // elements in the byte order of this machine
  std::string name;           // name of the file, for messages
  uint64_t data_offset = 0;   // position of the first element in the file, for messages
  int64_t elements() const;
};

// Returns "60000x28x28", or "scalar" if there are no dimensions.
std::string shape_text(const std::vector<int64_t>& dims);

// Reads the elements of an array whose header was just read, and expects the end of the source
// behind them. Checks the size against what the source can hold before memory is taken. Throws
// DataError.
void read_elements(Source& source, Array& array);

// Returns all elements as float32. Throws DataError for NaN, infinities and numbers beyond the
// range of float32.
std::vector<float> to_floats(const Array& array);
// The same as float64.
std::vector<double> to_doubles(const Array& array);

// Largest number of classes that is accepted; a larger label is taken for an error in the data.
inline constexpr int64_t kMaxClasses = 1 << 20;

// Returns class labels from integers of shape [n] or [n, 1]. Each must be in 0..classes-1; if
// `classes` is 0, in 0..kMaxClasses-1. Throws DataError.
std::vector<int32_t> to_labels(const Array& array, int64_t classes);

// The functions below read a file of one array; the parse functions read the same from memory and
// use `name` in messages. They throw DataError that names file, offset, expected and actual value.
//
// The IDX format of MNIST (http://yann.lecun.com/exdb/mnist, "the IDX file format"): two zero
// bytes, element type, rank, big-endian dimensions, big-endian elements. The file may be compressed
// with gzip.
Array read_idx(const std::string& path);
Array parse_idx(const void* data, std::size_t size, const std::string& name);
// NumPy's NPY format, versions 1 and 2 (numpy.lib.format): magic, version, header length, a Python
// dictionary as text, elements. Only C order and little-endian elements are read.
Array read_npy(const std::string& path);
Array parse_npy(const void* data, std::size_t size, const std::string& name);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_ARRAY_H_
