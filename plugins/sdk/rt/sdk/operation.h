// Reads an rt_op_desc: operands, attributes, and checks whose messages quote actual and expected
// values.
#ifndef RT_SDK_OPERATION_H_
#define RT_SDK_OPERATION_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rt/kernel.h"
#include "rt/sdk/error.h"
#include "rt/sdk/structs.h"
#include "rt/sdk/tensor.h"

namespace rt::sdk {

// A copy of an rt_op_desc and of the structs that it points to, in which fields that the host does
// not know are zero. Names and the forward plan stay those of the host, so that an Operation must
// not outlive the call that it is made in. The constructor checks every struct as check_input does.
// It also throws Error (RT_ERROR_INVALID_ARGUMENT) if the operation or an attribute has no name, or
// if there are more than RT_MAX_INPUTS inputs or RT_MAX_OUTPUTS outputs.
class Operation {
 public:
  // Copies and checks the description, as the class says.
  explicit Operation(const rt_op_desc* desc) : desc_(read_input(desc)) {
    if (desc_.name == nullptr) throw Error(RT_ERROR_INVALID_ARGUMENT, "an operation has no name");
    if (desc_.input_count > RT_MAX_INPUTS || desc_.output_count > RT_MAX_OUTPUTS) {
      fail(format("%u inputs and %u outputs; at most %d and %d", desc_.input_count,
                  desc_.output_count, RT_MAX_INPUTS, RT_MAX_OUTPUTS));
    }
    desc_.inputs = inputs_.take(desc_.inputs, desc_.input_count);
    desc_.outputs = outputs_.take(desc_.outputs, desc_.output_count);
    desc_.attributes = attributes_.take(desc_.attributes, desc_.attribute_count);
    desc_.post_ops = post_ops_.take(desc_.post_ops, desc_.post_op_count);
    for (uint32_t i = 0; i < desc_.attribute_count; ++i) {
      if (desc_.attributes[i]->name == nullptr) fail(format("attribute %u has no name", i));
    }
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Returns the copy of the description.
  const rt_op_desc& desc() const { return desc_; }
  // The operation's name, one of RT_OP_* or "<plugin>.<name>", and whether it is `name`.
  std::string_view name() const { return desc_.name; }
  bool is(std::string_view name) const { return name == desc_.name; }
  // Return the number of inputs and outputs, those of post-operations included.
  uint32_t input_count() const { return desc_.input_count; }
  uint32_t output_count() const { return desc_.output_count; }
  // Number of inputs that belong to the operation itself, without the operands of post-operations.
  uint32_t own_input_count() const {
    uint32_t count = desc_.input_count;
    for (uint32_t i = 0; i < desc_.post_op_count; ++i) {
      if (desc_.post_ops[i]->operand >= 0) --count;
    }
    return count;
  }

  // Returns the description of input i; throws Error (RT_ERROR_INVALID_ARGUMENT) if there is none.
  const rt_tensor_desc& input(uint32_t i) const {
    if (i >= desc_.input_count)
      fail(format("operand %u is missing; %u inputs given", i, desc_.input_count));
    return *desc_.inputs[i];
  }
  // The same for output i.
  const rt_tensor_desc& output(uint32_t i) const {
    if (i >= desc_.output_count)
      fail(format("output %u is missing; %u outputs given", i, desc_.output_count));
    return *desc_.outputs[i];
  }

  // Returns the number of post-operations, and number i of them, which must exist.
  uint32_t post_op_count() const { return desc_.post_op_count; }
  const rt_post_op& post_op(uint32_t i) const { return *desc_.post_ops[i]; }

  // Returns an attribute by name, or nothing if it is missing. An integer attribute may be read as
  // a number, and a number as an integer, which truncates it.
  std::optional<int64_t> find_integer(std::string_view name) const {
    const rt_attribute* a = find(name);
    return a ? std::optional<int64_t>(
                   a->type == RT_ATTRIBUTE_NUMBER ? static_cast<int64_t>(a->number) : a->integer)
             : std::nullopt;
  }
  // Returns an attribute, or `fallback` if it is missing.
  int64_t integer(std::string_view name, int64_t fallback) const {
    return find_integer(name).value_or(fallback);
  }
  // Returns an attribute. Throws Error (RT_ERROR_INVALID_ARGUMENT) if it is missing.
  int64_t integer(std::string_view name) const {
    const auto value = find_integer(name);
    if (!value) fail("attribute '" + std::string(name) + "' is missing");
    return *value;
  }
  // The same two for numbers.
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
    throw Error(RT_ERROR_INVALID_ARGUMENT, std::string(desc_.name) + ": " + message);
  }

 private:
  const rt_attribute* find(std::string_view name) const {
    for (uint32_t i = 0; i < desc_.attribute_count; ++i) {
      if (name == desc_.attributes[i]->name) return desc_.attributes[i];
    }
    return nullptr;
  }

  // Copies of structs that are given as an array of pointers.
  template <typename T>
  class Copies {
   public:
    const T* const* take(const T* const* given, uint32_t count) {
      values_.reserve(count);
      for (uint32_t i = 0; i < count; ++i) {
        values_.push_back(read_input(given[i]));
        pointers_.push_back(&values_.back());
      }
      return pointers_.data();
    }

   private:
    std::vector<T> values_;
    std::vector<const T*> pointers_;
  };

  rt_op_desc desc_;
  Copies<rt_tensor_desc> inputs_, outputs_;
  Copies<rt_attribute> attributes_;
  Copies<rt_post_op> post_ops_;
};

}  // namespace rt::sdk

#endif  // RT_SDK_OPERATION_H_
