// Converts doubles and integers to each element type.
#include "runtime/exec/encode.h"

#include <cstring>
#include <string>

#include "rt/sdk/float16.h"
#include "runtime/error.h"

namespace runtime::exec {

namespace {

template <typename Convert>
std::vector<std::byte> elements(const std::vector<double>& numbers, Convert&& convert) {
  using T = decltype(convert(0.0));
  std::vector<std::byte> bytes(numbers.size() * sizeof(T));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const T element = convert(numbers[i]);
    std::memcpy(&bytes[i * sizeof(T)], &element, sizeof(T));
  }
  return bytes;
}

template <typename T>
std::vector<double> numbers(const std::vector<std::byte>& elements) {
  std::vector<T> typed(elements.size() / sizeof(T));
  std::memcpy(typed.data(), elements.data(), typed.size() * sizeof(T));
  return {typed.begin(), typed.end()};
}

[[noreturn]] void fail(rt_dtype dtype) {
  throw InternalError("the host cannot convert elements of type " + std::to_string(dtype));
}

}  // namespace

std::vector<std::byte> encode(const std::vector<double>& numbers, rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
      return elements(numbers, [](double v) { return v; });
    case RT_FLOAT32:
      return elements(numbers, [](double v) { return static_cast<float>(v); });
    case RT_FLOAT16:
      return elements(numbers, [](double v) { return rt::sdk::to_float16(static_cast<float>(v)); });
    case RT_BFLOAT16:
      return elements(numbers,
                      [](double v) { return rt::sdk::to_bfloat16(static_cast<float>(v)); });
    case RT_INT32:
      return elements(numbers, [](double v) { return static_cast<int32_t>(v); });
    case RT_UINT8:
      return elements(numbers, [](double v) { return static_cast<uint8_t>(v); });
    case RT_INT64:
      return elements(numbers, [](double v) { return static_cast<int64_t>(v); });
    default:
      fail(dtype);
  }
}

std::vector<double> decode(const std::vector<std::byte>& elements, rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
      return numbers<double>(elements);
    case RT_FLOAT32:
      return numbers<float>(elements);
    case RT_INT32:
      return numbers<int32_t>(elements);
    case RT_UINT8:
      return numbers<uint8_t>(elements);
    case RT_INT64:
      return numbers<int64_t>(elements);
    default:
      fail(dtype);
  }
}

}  // namespace runtime::exec
