// Reads an rt_op_desc: operands, attributes, and checks whose messages quote actual and expected
// values.
#ifndef RT_SDK_OPERATION_H_
#define RT_SDK_OPERATION_H_

#include <optional>
#include <string>
#include <string_view>

#include "rt/kernel.h"
#include "rt/sdk/error.h"

namespace rt::sdk {

// "float32"; "dtype 77" for an unknown type.
inline std::string to_string(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT32:
      return "float32";
    case RT_FLOAT64:
      return "float64";
    case RT_FLOAT16:
      return "float16";
    case RT_BFLOAT16:
      return "bfloat16";
    case RT_INT32:
      return "int32";
    case RT_INT64:
      return "int64";
    case RT_UINT8:
      return "uint8";
    case RT_INT8:
      return "int8";
    default:
      return "dtype " + std::to_string(dtype);
  }
}

// Bytes of one element; 0 for an unknown type.
inline uint64_t dtype_bytes(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
    case RT_INT64:
      return 8;
    case RT_FLOAT32:
    case RT_INT32:
      return 4;
    case RT_FLOAT16:
    case RT_BFLOAT16:
      return 2;
    case RT_UINT8:
    case RT_INT8:
      return 1;
    default:
      return 0;
  }
}

// Whether the type is float16 or bfloat16.
inline bool is_sixteen_bit(rt_dtype dtype) { return dtype == RT_FLOAT16 || dtype == RT_BFLOAT16; }

// Number of elements; does not check for overflow.
inline int64_t element_count(const rt_tensor_desc& tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor.rank; ++i) count *= tensor.dims[i];
  return count;
}

// "float32 [64, 28, 28, 1]"
inline std::string to_string(const rt_tensor_desc& tensor) {
  std::string text = to_string(tensor.dtype) + " [";
  for (int32_t i = 0; i < tensor.rank; ++i) {
    text += (i ? ", " : "") + std::to_string(tensor.dims[i]);
  }
  return text + "]";
}

// Whether rank and dims are equal; types and layouts may differ.
inline bool same_dims(const rt_tensor_desc& a, const rt_tensor_desc& b) {
  if (a.rank != b.rank) return false;
  for (int32_t i = 0; i < a.rank; ++i) {
    if (a.dims[i] != b.dims[i]) return false;
  }
  return true;
}

// A view of an rt_op_desc, valid as long as the rt_op_desc is. The constructor throws Error
// (RT_ERROR_INVALID_ARGUMENT) unless the description exists, has a name, is long enough and has at
// most RT_MAX_INPUTS inputs and RT_MAX_OUTPUTS outputs.
class Operation {
 public:
  explicit Operation(const rt_op_desc* desc) : desc_(desc) {
    if (desc == nullptr || desc->size < sizeof(rt_op_desc) || desc->name == nullptr) {
      throw Error(RT_ERROR_INVALID_ARGUMENT, "operation description is missing or too short");
    }
    if (desc->input_count > RT_MAX_INPUTS || desc->output_count > RT_MAX_OUTPUTS) {
      throw Error(RT_ERROR_INVALID_ARGUMENT,
                  format("%s: %u inputs and %u outputs; at most %d and %d", desc->name,
                         desc->input_count, desc->output_count, RT_MAX_INPUTS, RT_MAX_OUTPUTS));
    }
  }

  // The description, the operation's name, and whether the name is `name`.
  const rt_op_desc& desc() const { return *desc_; }
  std::string_view name() const { return desc_->name; }
  bool is(std::string_view name) const { return name == desc_->name; }
  uint32_t input_count() const { return desc_->input_count; }
  uint32_t output_count() const { return desc_->output_count; }
  // Number of inputs that belong to the operation itself, without the operands of post-operations.
  uint32_t own_input_count() const {
    uint32_t count = desc_->input_count;
    for (uint32_t i = 0; i < desc_->post_op_count; ++i) {
      if (desc_->post_ops[i]->operand >= 0) --count;
    }
    return count;
  }

  // Operand i; throws Error (RT_ERROR_INVALID_ARGUMENT) if there is none.
  const rt_tensor_desc& input(uint32_t i) const {
    if (i >= desc_->input_count)
      fail(format("operand %u is missing; %u inputs given", i, desc_->input_count));
    return *desc_->inputs[i];
  }
  const rt_tensor_desc& output(uint32_t i) const {
    if (i >= desc_->output_count)
      fail(format("output %u is missing; %u outputs given", i, desc_->output_count));
    return *desc_->outputs[i];
  }

  uint32_t post_op_count() const { return desc_->post_op_count; }
  const rt_post_op& post_op(uint32_t i) const { return *desc_->post_ops[i]; }

  // Attributes by name. An integer attribute may be read as a number, and a number as an integer,
  // which truncates it. Without a fallback, integer() and number() throw Error
  // (RT_ERROR_INVALID_ARGUMENT) if the attribute is missing.
  std::optional<int64_t> find_integer(std::string_view name) const {
    const rt_attribute* a = find(name);
    return a ? std::optional<int64_t>(
                   a->type == RT_ATTRIBUTE_NUMBER ? static_cast<int64_t>(a->number) : a->integer)
             : std::nullopt;
  }
  int64_t integer(std::string_view name, int64_t fallback) const {
    return find_integer(name).value_or(fallback);
  }
  int64_t integer(std::string_view name) const {
    const auto value = find_integer(name);
    if (!value) fail("attribute '" + std::string(name) + "' is missing");
    return *value;
  }
  double number(std::string_view name, double fallback) const {
    const rt_attribute* a = find(name);
    if (a == nullptr) return fallback;
    return a->type == RT_ATTRIBUTE_INTEGER ? static_cast<double>(a->integer) : a->number;
  }
  double number(std::string_view name) const {
    if (find(name) == nullptr) fail("attribute '" + std::string(name) + "' is missing");
    return number(name, 0.0);
  }

  // Throws Error (RT_ERROR_INVALID_ARGUMENT) with the operation's name in front of the message.
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(RT_ERROR_INVALID_ARGUMENT, std::string(desc_->name) + ": " + message);
  }

 private:
  const rt_attribute* find(std::string_view name) const {
    for (uint32_t i = 0; i < desc_->attribute_count; ++i) {
      if (name == desc_->attributes[i]->name) return desc_->attributes[i];
    }
    return nullptr;
  }

  const rt_op_desc* desc_;
};

}  // namespace rt::sdk

#endif  // RT_SDK_OPERATION_H_
