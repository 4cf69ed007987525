// Fills operands with ordinary, tiny, huge and planted numbers.
#include "tests/differential/operations/operands.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "rt/sdk/float16.h"
#include "rt/sdk/operation.h"

namespace differential {
namespace {

using plugins::conformance::make_values;
using plugins::host::Operation;

template <typename T>
std::vector<double> decode_as(const Bytes& bytes) {
  std::vector<double> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(element);
  }
  return values;
}

template <typename T, typename Convert>
Bytes encode_as(const std::vector<double>& values, Convert convert) {
  Bytes bytes(values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    const T element = convert(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

// A post-operation tanh_backward squares its operand, and sigmoid_backward multiplies its operand
// by itself.
constexpr double kHugePostOperand = 1e10;

double huge_of(const Family& family, rt_dtype dtype, bool post_operand) {
  const double huge = post_operand ? std::min(family.huge, kHugePostOperand) : family.huge;
  return dtype == RT_FLOAT16 ? std::min(huge, 100.0) : huge;
}

// A subnormal number of the type.
// Subnormal, but small only in bfloat16, whose products by matrix units take subnormal numbers as
// 0.
double tiny_of(rt_dtype dtype) {
  return dtype == RT_BFLOAT16 ? 1e-30 : smallest_normal_number(dtype) / 100;
}

double plant_value(const Family& family, rt_dtype dtype, const std::string& name, double huge) {
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (name == "inf") return std::numeric_limits<double>::infinity();
  if (name == "-inf") return -std::numeric_limits<double>::infinity();
  if (name == "-0") return -0.0;
  if (name == "tiny") return tiny_of(dtype);
  // Where an implementation mixes elements, one huge element would cost the others their last
  // digits.
  if (name == "huge" && family.not_finite == NotFinite::kMaySpread) return std::min(huge, 30.0);
  if (name == "huge") return huge;
  return 0.0;
}

// Replaces ordinary numbers as `fill` says. For operands that must not be negative, only "same" has
// an effect.
void refill(const std::string& fill, const Values& usual, rt_dtype dtype, double huge,
            std::vector<double>& values) {
  const double first = values.empty() ? 0.0 : values.front();
  for (double& v : values) {
    if (fill == "same") v = first;
    if (usual.low >= 0) continue;
    if (fill == "whole") v = std::nearbyint(v * 4);
    if (fill == "huge") v *= huge;
    if (fill == "tiny") v *= tiny_of(dtype);
    if (fill == "offset") v = std::min(100.0, huge) + v / 1000;
    if (fill == "zero") v = 0;
    if (fill == "one") v = 1;
  }
}

// Rounding goes the same way in each addition of equal products, so a sum of thousands is off by
// more than any tolerance. With so few digits nothing is rounded: what lies in the wrong place
// still shows.
void leave_few_digits(std::vector<double>& values) {
  for (double& v : values) v = std::nearbyint(v * 16) / 16;
}

// Makes the operands one at a time; `index` counts them as Plant::operand does.
class Maker {
 public:
  Maker(const Recipe& recipe, const Case& c)
      : recipe_(recipe), family_(family_of(recipe.operation)) {
    finite_ = family_.finite_inputs(Sizes(recipe.numbers));
    inputs_ = c.operation.inputs.size();
    const auto& posts = c.operation.post_ops;
    post_operands_ = static_cast<size_t>(std::count_if(
        posts.begin(), posts.end(), [](const auto& post) { return post.operand >= 0; }));
  }

  Bytes make(const rt_tensor_desc& tensor, Values usual, size_t index) const {
    usual.seed += 1000003 * recipe_.seed;
    if (!is_floating(tensor.dtype)) return make_values(tensor, usual);
    rt_tensor_desc wide = tensor;
    wide.dtype = RT_FLOAT64;
    std::vector<double> values = decode(RT_FLOAT64, make_values(wide, usual));
    const bool filled =
        recipe_.filled_operand < 0 || static_cast<size_t>(recipe_.filled_operand) == index;
    const bool post_operand = index < inputs_ && index >= inputs_ - post_operands_;
    const double huge = huge_of(family_, tensor.dtype, post_operand);
    const double last = values.empty() ? 0 : values.back();
    if (filled) refill(recipe_.fill, usual, tensor.dtype, huge, values);
    if ((recipe_.fill == "same" && family_.sums_products) || family_.chooses_results)
      leave_few_digits(values);
    // Where an implementation mixes elements, no element of an operand that multiplies a gradient
    // may outweigh the others.
    const bool mixes = family_.not_finite == NotFinite::kMaySpread;
    plant(tensor.dtype, index, post_operand && mixes ? 1.0 : huge, values);
    if (index < inputs_ && (family_.ends_with_count >> index & 1)) values.back() = last;
    return encode(tensor.dtype, values);
  }

 private:
  void plant(rt_dtype dtype, size_t index, double huge, std::vector<double>& values) const {
    if (index < inputs_ && (family_.counters >> index & 1)) return;
    const bool finite = finite_ >> index & 1;
    for (const Plant& p : recipe_.plants) {
      if (p.operand != index || values.empty()) continue;
      const double value = plant_value(family_, dtype, p.value, huge);
      if (std::isfinite(value) || !finite) values[p.index % values.size()] = value;
    }
  }

  const Recipe& recipe_;
  const Family& family_;
  uint32_t finite_ = 0;
  size_t inputs_ = 0, post_operands_ = 0;  // the operands of post-operations are the last inputs
};

bool same_values(const Values& a, const Values& b) {
  return a.seed == b.seed && a.low == b.low && a.high == b.high && a.zero_every == b.zero_every;
}

// The input of the backward operation that holds the same data as input i of the forward operation.
std::optional<size_t> shared_input(const Case& c, size_t i) {
  for (size_t j = 0; j < c.operation.inputs.size(); ++j) {
    if (same_values(c.forward_inputs[i], c.inputs[j]) &&
        c.forward->inputs[i].dtype == c.operation.inputs[j].dtype &&
        rt::sdk::same_dims(c.forward->inputs[i], c.operation.inputs[j]))
      return j;
  }
  return std::nullopt;
}

}  // namespace

bool is_floating(rt_dtype dtype) {
  return dtype == RT_FLOAT32 || dtype == RT_FLOAT64 || dtype == RT_FLOAT16 || dtype == RT_BFLOAT16;
}

std::vector<double> decode(rt_dtype dtype, const Bytes& bytes) {
  switch (dtype) {
    case RT_FLOAT64:
      return decode_as<double>(bytes);
    case RT_INT32:
      return decode_as<int32_t>(bytes);
    case RT_INT64:
      return decode_as<int64_t>(bytes);
    case RT_UINT8:
      return decode_as<uint8_t>(bytes);
    case RT_INT8:
      return decode_as<int8_t>(bytes);
    case RT_FLOAT16:
    case RT_BFLOAT16: {
      std::vector<double> values = decode_as<uint16_t>(bytes);
      for (double& v : values) {
        const auto bits = static_cast<uint16_t>(v);
        v = dtype == RT_FLOAT16 ? rt::sdk::from_float16(bits) : rt::sdk::from_bfloat16(bits);
      }
      return values;
    }
    default:
      return decode_as<float>(bytes);
  }
}

Bytes encode(rt_dtype dtype, const std::vector<double>& values) {
  const auto narrow = [](double v) { return static_cast<float>(v); };
  switch (dtype) {
    case RT_FLOAT64:
      return encode_as<double>(values, [](double v) { return v; });
    case RT_FLOAT16:
      return encode_as<uint16_t>(values, [&](double v) { return rt::sdk::to_float16(narrow(v)); });
    case RT_BFLOAT16:
      return encode_as<uint16_t>(values, [&](double v) { return rt::sdk::to_bfloat16(narrow(v)); });
    default:
      return encode_as<float>(values, narrow);
  }
}

double rounded_to(rt_dtype dtype, double value) {
  return is_floating(dtype) ? decode(dtype, encode(dtype, {value})).front() : value;
}

double largest_number(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
      return std::numeric_limits<double>::max();
    case RT_FLOAT16:
      return 65504;
    case RT_BFLOAT16:
      return 0x1.FEp127;
    default:
      return std::numeric_limits<float>::max();
  }
}

double smallest_normal_number(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
      return std::numeric_limits<double>::min();
    case RT_FLOAT16:
      return 0x1p-14;
    default:
      return std::numeric_limits<float>::min();
  }
}

Operands make_operands(const Recipe& recipe, const Case& c) {
  const Maker maker(recipe, c);
  Operands operands;
  for (size_t i = 0; i < c.operation.inputs.size(); ++i)
    operands.inputs.push_back(maker.make(c.operation.inputs[i], c.inputs[i], i));
  for (size_t i = 0; i < c.forward_inputs.size(); ++i) {
    const std::optional<size_t> shared = shared_input(c, i);
    operands.forward_inputs.push_back(shared ? operands.inputs[*shared]
                                             : maker.make(c.forward->inputs[i], c.forward_inputs[i],
                                                          c.operation.inputs.size() + i));
  }
  return operands;
}

Operation widened(Operation operation) {
  for (auto* list : {&operation.inputs, &operation.outputs}) {
    for (rt_tensor_desc& tensor : *list) {
      if (is_floating(tensor.dtype)) tensor.dtype = RT_FLOAT64;
    }
  }
  return operation;
}

std::vector<Bytes> widened(const Operation& operation, const std::vector<Bytes>& data) {
  std::vector<Bytes> wide;
  for (size_t i = 0; i < data.size(); ++i) {
    const rt_dtype dtype = operation.inputs[i].dtype;
    wide.push_back(is_floating(dtype) ? encode(RT_FLOAT64, decode(dtype, data[i])) : data[i]);
  }
  return wide;
}

}  // namespace differential
