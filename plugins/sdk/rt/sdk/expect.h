// Checks of operands and attributes. A check that fails throws Error (RT_ERROR_INVALID_ARGUMENT)
// with the operation, the actual and the expected value in the message. `name` is the operand's
// name in plugins/operations.md.
#ifndef RT_SDK_EXPECT_H_
#define RT_SDK_EXPECT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "rt/operations.h"
#include "rt/sdk/operation.h"
#include "rt/sdk/post_ops.h"
#include "rt/sdk/refusal.h"

namespace rt::sdk {

// The sizes of a tensor along its dimensions, or strides in elements.
using Dims = std::vector<int64_t>;

// Returns the dims of a tensor.
inline Dims dims_of(const rt_tensor_desc& tensor) {
  return Dims(tensor.dims, tensor.dims + tensor.rank);
}
// Returns the product of dims, which is 1 for none; does not check for overflow.
inline int64_t product(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  return count;
}

// Strides, in elements, of a dense row-major tensor.
inline Dims strides_of(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// For messages, for example "[2, 3]".
inline std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

// Checks the number of the operation's own inputs and outputs (without those of post-operations).
inline void expect_counts(const Operation& op, uint32_t inputs, uint32_t outputs) {
  const uint32_t given = own_output_count(op);
  if (op.own_input_count() == inputs && given == outputs) return;
  op.fail(
      format("%u inputs and %u outputs given (those of post-operations not counted), expected "
             "%u and %u",
             op.own_input_count(), given, inputs, outputs));
}

// Checks the type and the dims of input or output i. `name` is its name in plugins/operations.md,
// for the message.
inline void expect_tensor(const Operation& op, bool output, uint32_t i, const char* name,
                          rt_dtype dtype, const Dims& dims) {
  const rt_tensor_desc& actual = output ? op.output(i) : op.input(i);
  if (actual.dtype == dtype && dims_of(actual) == dims) return;
  op.fail(operand_text(output, i, name) + " is " + to_string(actual) + ", expected " +
          to_string(dtype) + " " + to_string(dims));
}
// The same for an input.
inline void expect_input(const Operation& op, uint32_t i, const char* name, rt_dtype dtype,
                         const Dims& dims) {
  expect_tensor(op, false, i, name, dtype, dims);
}
// The same for an output.
inline void expect_output(const Operation& op, uint32_t i, const char* name, rt_dtype dtype,
                          const Dims& dims) {
  expect_tensor(op, true, i, name, dtype, dims);
}

// Checks the rank of input or output i and returns its description.
inline const rt_tensor_desc& tensor_of_rank(const Operation& op, bool output, uint32_t i,
                                            const char* name, int32_t rank) {
  const rt_tensor_desc& actual = output ? op.output(i) : op.input(i);
  if (actual.rank == rank) return actual;
  op.fail(operand_text(output, i, name) + " is " + to_string(actual) + " with " +
          std::to_string(actual.rank) + " dimensions, expected " + std::to_string(rank));
}
// The same for an input.
inline const rt_tensor_desc& input_of_rank(const Operation& op, uint32_t i, const char* name,
                                           int32_t rank) {
  return tensor_of_rank(op, false, i, name, rank);
}
// The same for an output.
inline const rt_tensor_desc& output_of_rank(const Operation& op, uint32_t i, const char* name,
                                            int32_t rank) {
  return tensor_of_rank(op, true, i, name, rank);
}
// Checks that input i has at least this rank, and returns its description.
inline const rt_tensor_desc& input_of_min_rank(const Operation& op, uint32_t i, const char* name,
                                               int32_t rank) {
  const rt_tensor_desc& actual = op.input(i);
  if (actual.rank >= rank) return actual;
  op.fail(operand_text(false, i, name) + " is " + to_string(actual) + ", expected at least " +
          std::to_string(rank) + " dimensions");
}

// The value of an attribute, which must be at least `minimum`; `fallback` if it is absent.
inline int64_t integer_at_least(const Operation& op, const char* name, int64_t fallback,
                                int64_t minimum) {
  const int64_t value = op.integer(name, fallback);
  if (value >= minimum) return value;
  op.fail(format("%s is %lld, expected at least %lld", name, static_cast<long long>(value),
                 static_cast<long long>(minimum)));
}

// Returns the type of input i. Throws Refusal unless `dtypes`, a mask of RT_DTYPE_BIT, has it.
inline rt_dtype computed_type(const Operation& op, uint32_t i, const char* name, uint64_t dtypes) {
  const rt_dtype dtype = op.input(i).dtype;
  if (dtype >= RT_FLOAT32 && dtype <= RT_INT8 && (dtypes & RT_DTYPE_BIT(dtype)) != 0) return dtype;
  std::string known;
  for (rt_dtype d = RT_FLOAT32; d <= RT_INT8; ++d) {
    if ((dtypes & RT_DTYPE_BIT(d)) != 0) known += (known.empty() ? "" : ", ") + to_string(d);
  }
  refuse_input(op, i, name, "this device computes in " + known + "; cast the operand");
}

}  // namespace rt::sdk

#endif  // RT_SDK_EXPECT_H_
