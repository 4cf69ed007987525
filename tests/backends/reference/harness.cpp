// Runs a reference kernel on arrays of numbers in any type, and compares arrays by norm.
#include "tests/backends/reference/harness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "backends/reference/kernel.h"
#include "rt/sdk/canonical_layout.h"

namespace backends::reference::testing {
namespace {

using plugins::host::Operation;
using plugins::host::OperationView;

template <typename T>
void store_as(const Array& values, std::vector<std::byte>& bytes) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = static_cast<T>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

template <typename T>
Array load_as(const std::vector<std::byte>& bytes) {
  Array values;
  for (size_t offset = 0; offset < bytes.size(); offset += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    values.push_back(static_cast<double>(value));
  }
  return values;
}

std::vector<std::byte> to_bytes(const rt_tensor_desc& tensor, const Array& values) {
  EXPECT_EQ(rt::sdk::element_count(tensor), static_cast<int64_t>(values.size()));
  std::vector<std::byte> bytes(rt::sdk::tensor_bytes(tensor));
  if (tensor.dtype == RT_FLOAT64) store_as<double>(values, bytes);
  if (tensor.dtype == RT_FLOAT32) store_as<float>(values, bytes);
  if (tensor.dtype == RT_INT32) store_as<int32_t>(values, bytes);
  if (tensor.dtype == RT_INT64) store_as<int64_t>(values, bytes);
  if (tensor.dtype == RT_UINT8) store_as<uint8_t>(values, bytes);
  return bytes;
}

Array from_bytes(const rt_tensor_desc& tensor, const std::vector<std::byte>& bytes) {
  if (tensor.dtype == RT_FLOAT32) return load_as<float>(bytes);
  if (tensor.dtype == RT_INT32) return load_as<int32_t>(bytes);
  if (tensor.dtype == RT_INT64) return load_as<int64_t>(bytes);
  if (tensor.dtype == RT_UINT8) return load_as<uint8_t>(bytes);
  return load_as<double>(bytes);
}

}  // namespace

Operation operation(const std::string& name, const std::vector<Dims>& inputs,
                    const std::vector<Dims>& outputs, const Attributes& attributes,
                    rt_dtype dtype) {
  Operation op;
  op.name = name;
  for (const Dims& d : inputs) op.inputs.push_back(plugins::host::make_tensor_desc(dtype, d));
  for (const Dims& d : outputs) op.outputs.push_back(plugins::host::make_tensor_desc(dtype, d));
  op.attributes = attributes;
  return op;
}

std::vector<Array> run(const Operation& op, const std::vector<Array>& inputs, Saved* saved) {
  const OperationView view(op);
  const Kernel kernel = make_kernel(rt::sdk::Operation(view.get()));
  std::vector<std::vector<std::byte>> in, out;
  std::vector<const void*> in_addresses;
  std::vector<void*> out_addresses;
  for (size_t i = 0; i < inputs.size(); ++i) in.push_back(to_bytes(op.inputs[i], inputs[i]));
  // Bytes of 0xFF are a NaN, which reveals elements that were not written.
  for (const auto& y : op.outputs) out.emplace_back(rt::sdk::tensor_bytes(y), std::byte{0xFF});
  for (auto& bytes : in) in_addresses.push_back(bytes.data());
  for (auto& bytes : out) out_addresses.push_back(bytes.data());
  std::vector<std::byte> workspace(kernel.workspace_bytes, std::byte{0xFF});
  Saved own;
  Saved& kept = saved ? *saved : own;
  if (kernel.saved_bytes > 0) kept.assign(kernel.saved_bytes, std::byte{0xFF});
  EXPECT_EQ(kernel.reads_saved, kernel.reads_saved > 0 ? kept.size() : 0);
  kernel.run({in_addresses.data(), out_addresses.data(), workspace.data(), kept.data()});
  std::vector<Array> results;
  for (size_t j = 0; j < out.size(); ++j) results.push_back(from_bytes(op.outputs[j], out[j]));
  return results;
}

Array run1(const Operation& op, const std::vector<Array>& inputs) { return run(op, inputs).at(0); }

int64_t count(const Dims& dims) {
  int64_t result = 1;
  for (const int64_t d : dims) result *= d;
  return result;
}

Array random_array(const Dims& dims, uint64_t seed, double low, double high) {
  std::mt19937_64 random(seed);
  Array values(static_cast<size_t>(count(dims)));
  for (double& v : values) v = low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  return values;
}

double relative_error(const Array& actual, const Array& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference) / (norm > 0 ? std::sqrt(norm) : 1.0);
}

void expect_gradient(const std::function<Array(const Array&)>& function, Array x, const Array& dy,
                     const Array& gradient, const std::string& what) {
  constexpr double kStep = 1e-5;
  const auto loss = [&] {
    const Array y = function(x);
    EXPECT_EQ(y.size(), dy.size()) << what;
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  };
  Array numeric;
  for (double& element : x) {
    const double centre = element;
    element = centre + kStep;
    const double above = loss();
    element = centre - kStep;
    const double below = loss();
    element = centre;
    numeric.push_back((above - below) / (2 * kStep));
  }
  EXPECT_LT(relative_error(gradient, numeric), 1e-6) << what;
}

std::string refusal(const Operation& op) {
  const OperationView view(op);
  try {
    make_kernel(rt::sdk::Operation(view.get()));
  } catch (const rt::sdk::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace backends::reference::testing
