// Element types of arrays, with the conversions and checks of their numbers.
#include "runtime/data/array.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "runtime/error.h"
#include "runtime/system/available_memory.h"

namespace runtime::data {
namespace {

struct TypeInfo {
  const char* name;
  std::size_t size;
  bool fits_float;
};
constexpr TypeInfo kElementTypes[] = {  // indexed by ElementType
    {"uint8", 1, true},   {"int8", 1, true},    {"uint16", 2, true},  {"int16", 2, true},
    {"uint32", 4, false}, {"int32", 4, false},  {"uint64", 8, false}, {"int64", 8, false},
    {"float32", 4, true}, {"float64", 8, false}};

// Calls visitor(const T*) with the elements in their own type.
template <class Visitor>
void visit_elements(const Array& array, const Visitor& visitor) {
  const void* data = array.bytes.data.get();
  switch (array.type) {
    case ElementType::kUint8:
      return visitor(static_cast<const uint8_t*>(data));
    case ElementType::kInt8:
      return visitor(static_cast<const int8_t*>(data));
    case ElementType::kUint16:
      return visitor(static_cast<const uint16_t*>(data));
    case ElementType::kInt16:
      return visitor(static_cast<const int16_t*>(data));
    case ElementType::kUint32:
      return visitor(static_cast<const uint32_t*>(data));
    case ElementType::kInt32:
      return visitor(static_cast<const int32_t*>(data));
    case ElementType::kUint64:
      return visitor(static_cast<const uint64_t*>(data));
    case ElementType::kInt64:
      return visitor(static_cast<const int64_t*>(data));
    case ElementType::kFloat32:
      return visitor(static_cast<const float*>(data));
    case ElementType::kFloat64:
      return visitor(static_cast<const double*>(data));
  }
}

[[noreturn]] void fail_at_element(const Array& array, int64_t index, const std::string& message) {
  fail_at(array.name, array.data_offset + static_cast<uint64_t>(index) * element_size(array.type),
          message);
}

// A small compressed or sparse file can hold an array that fills the memory, so memory is checked
// first.
void require_memory(const Array& array, uint64_t bytes, const std::string& form) {
  system::require_memory(bytes,
                         array.name + ": the array (shape " + shape_text(array.dims) + " of " +
                             element_name(array.type) + ")" + form,
                         "use a smaller file or a machine with more memory");
}

// Ensures that every product of leading dimensions fits into int64, even if a later dimension is 0.
uint64_t checked_size(const Source& source, const Array& array) {
  auto signed_size = static_cast<int64_t>(element_size(array.type));
  for (const int64_t dim : array.dims) {
    if (__builtin_mul_overflow(signed_size, dim, &signed_size)) {
      source.fail("the header says shape " + shape_text(array.dims) +
                  ", more bytes than can be counted; the header is damaged");
    }
  }
  const auto size = static_cast<uint64_t>(signed_size);
  if (size > source.limit()) {
    source.fail("the header says shape " + shape_text(array.dims) + " of " +
                element_name(array.type) + ", " + std::to_string(size) +
                " bytes, but the file can hold no more than " + std::to_string(source.limit()) +
                " from here; the file is cut or its header damaged, fetch it again");
  }
  return size;
}

// Whether float64 has all digits of an element, if that is an integer.
template <class Element>
bool is_exact_in_float64(Element element) {
  if constexpr (std::is_integral_v<Element> && sizeof(Element) == 8) {
    auto magnitude = static_cast<uint64_t>(element);
    if (std::is_signed_v<Element> && magnitude >> 63 != 0) magnitude = 0 - magnitude;
    return magnitude == 0 || (magnitude >> std::countr_zero(magnitude)) >> 53 == 0;
  }
  return true;
}

// The elements as `Number`, whose name is `type`.
template <class Number>
std::vector<Number> to_numbers(const Array& array, const std::string& type) {
  require_memory(array, static_cast<uint64_t>(array.elements()) * sizeof(Number), " as " + type);
  std::vector<Number> numbers(static_cast<std::size_t>(array.elements()));
  visit_elements(array, [&](const auto* elements) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double value = static_cast<double>(elements[i]);
      // The comparison is negated, so that NaN fails as well.
      if (!(std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max()))) {
        fail_at_element(array, static_cast<int64_t>(i),
                        "element " + std::to_string(i) + " is " + std::to_string(value) +
                            "; expected a finite number in the range of float32");
      }
      if (!is_exact_in_float64(elements[i])) {
        const int64_t columns = array.dims.size() == 2 ? array.dims[1] : 1;
        fail_at_element(array, static_cast<int64_t>(i),
                        "element " + std::to_string(i) + " (column " +
                            std::to_string(static_cast<int64_t>(i) % columns) + ") is " +
                            std::to_string(elements[i]) +
                            ", which would be rounded, as integers above 2^53 are; leave its "
                            "column out, or save the array as float64 where digits do not count");
      }
      numbers[i] = static_cast<Number>(elements[i]);
    }
  });
  return numbers;
}

}  // namespace

std::size_t element_size(ElementType type) { return kElementTypes[static_cast<int>(type)].size; }

const char* element_name(ElementType type) { return kElementTypes[static_cast<int>(type)].name; }

bool fits_float(ElementType type) { return kElementTypes[static_cast<int>(type)].fits_float; }

bool is_floating(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat64;
}

int64_t Array::elements() const { return static_cast<int64_t>(bytes.size / element_size(type)); }

std::string shape_text(const std::vector<int64_t>& dims) {
  std::string text;
  for (const int64_t dim : dims) {
    if (!text.empty()) text += 'x';
    text += std::to_string(dim);
  }
  return text.empty() ? "scalar" : text;
}

void read_elements(Source& source, Array& array) {
  const uint64_t size = checked_size(source, array);
  array.name = source.name();
  array.data_offset = source.offset();
  require_memory(array, size, "");
  array.bytes = make_bytes(size);
  source.read_exactly(array.bytes.data.get(), size,
                      "the elements (shape " + shape_text(array.dims) + ")");
  source.expect_end();
}

std::vector<float> to_floats(const Array& array) { return to_numbers<float>(array, "float32"); }

std::vector<double> to_doubles(const Array& array) { return to_numbers<double>(array, "float64"); }

std::vector<int32_t> to_labels(const Array& array, int64_t classes) {
  if (is_floating(array.type)) {
    fail_at(array.name, 0,
            std::string("labels are ") + element_name(array.type) +
                "; expected integers (for numbers to predict, say task = \"regression\")");
  }
  const bool column = array.dims.size() == 2 && array.dims[1] == 1;
  if (array.dims.size() != 1 && !column) {
    fail_at(array.name, 0,
            "labels have shape " + shape_text(array.dims) + "; expected one label per sample");
  }
  const uint64_t bound = static_cast<uint64_t>(classes > 0 ? classes : kMaxClasses);
  require_memory(array, static_cast<uint64_t>(array.elements()) * sizeof(int32_t), " as int32");
  std::vector<int32_t> labels(static_cast<std::size_t>(array.elements()));
  visit_elements(array, [&](const auto* elements) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      // A negative label becomes a huge number here.
      if (static_cast<uint64_t>(elements[i]) >= bound) {
        fail_at_element(array, static_cast<int64_t>(i),
                        "label of sample " + std::to_string(i) + " is " +
                            std::to_string(elements[i]) + "; expected 0.." +
                            std::to_string(bound - 1) + (classes > 0 ? " (dataset.classes)" : ""));
      }
      labels[i] = static_cast<int32_t>(elements[i]);
    }
  });
  return labels;
}

}  // namespace runtime::data
