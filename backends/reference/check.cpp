#include "backends/reference/check.h"

#include <limits>

#include "rt/sdk/post_ops.h"

namespace backends::reference {

using rt::sdk::format;

Dims dims_of(const rt_tensor_desc& tensor) { return Dims(tensor.dims, tensor.dims + tensor.rank); }

int64_t product(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  return count;
}

Dims strides_of(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

namespace {

// For example "operand 1 (w)" or "output 0 (y)".
std::string operand_text(bool output, uint32_t i, const char* name) {
  return format("%s %u (%s)", output ? "output" : "operand", i, name);
}

void expect(const Operation& op, bool output, uint32_t i, const char* name, rt_dtype dtype,
            const Dims& dims) {
  const rt_tensor_desc& actual = output ? op.output(i) : op.input(i);
  if (actual.dtype == dtype && dims_of(actual) == dims) return;
  op.fail(operand_text(output, i, name) + " is " + rt::sdk::to_string(actual) + ", expected " +
          rt::sdk::to_string(dtype) + " " + to_string(dims));
}

const rt_tensor_desc& of_rank(const Operation& op, bool output, uint32_t i, const char* name,
                              int32_t rank) {
  const rt_tensor_desc& actual = output ? op.output(i) : op.input(i);
  if (actual.rank != rank) {
    op.fail(operand_text(output, i, name) + " is " + rt::sdk::to_string(actual) + " with " +
            std::to_string(actual.rank) + " dimensions, expected " + std::to_string(rank));
  }
  return actual;
}

rt_dtype floating(const Operation& op, bool output, uint32_t i, const char* name) {
  const rt_tensor_desc& actual = output ? op.output(i) : op.input(i);
  if (actual.dtype != RT_FLOAT32 && actual.dtype != RT_FLOAT64) {
    throw Refusal(static_cast<int32_t>(output ? 100 + i : i),
                  std::string(op.name()) + ": " + operand_text(output, i, name) + " is " +
                      rt::sdk::to_string(actual.dtype) +
                      "; the reference computes in float32 and float64, and stores float16 and "
                      "bfloat16 too; cast the operand to one of them");
  }
  return actual.dtype;
}

void expect_tensor(const Operation& op, const rt_tensor_desc* tensor, bool output, uint32_t i,
                   bool any_layout) {
  const char* const kind = output ? "output" : "operand";
  if (tensor->rank < 0 || tensor->rank > RT_MAX_RANK) {
    op.fail(format("%s %u has rank %d, expected 0..%d", kind, i, tensor->rank, RT_MAX_RANK));
  }
  int64_t room = std::numeric_limits<int64_t>::max() / 8;
  for (int32_t d = 0; d < tensor->rank; ++d) {
    const int64_t size = tensor->dims[d];
    if (size < 0 || (size > 0 && size > room)) {
      op.fail(
          format("%s %u: dimension %d is %lld, expected a size >= 0 whose tensor fits the "
                 "address space",
                 kind, i, d, static_cast<long long>(size)));
    }
    if (size > 0) room /= size;
  }
  const bool known =
      tensor->layout == RT_LAYOUT_CANONICAL || (any_layout && tensor->layout == RT_LAYOUT_ANY);
  if (!known) {
    throw Refusal(static_cast<int32_t>(output ? 100 + i : i),
                  format("%s: %s %u has layout 0x%llx; the reference knows the canonical layout "
                         "(0) only, reorder with copy",
                         op.desc().name, kind, i, static_cast<unsigned long long>(tensor->layout)));
  }
}

void expect_post_operations(const Operation& op) {
  const rt_op_desc& desc = op.desc();
  for (uint32_t i = 0; i < desc.post_op_count; ++i) {
    const rt_post_op* post = desc.post_ops[i];
    const bool has_operand = post->operand >= 0;
    if (has_operand && static_cast<uint32_t>(post->operand) >= desc.input_count) {
      op.fail(format("post-operation %u names operand %d, but there are %u inputs", i,
                     post->operand, desc.input_count));
    }
    const bool takes_none = post->kind == RT_POST_ACTIVATION || post->kind == RT_POST_STORE;
    if (has_operand == takes_none) {
      op.fail(
          format("post-operation %u of kind %d has operand %d; an activation and a store take none "
                 "(-1), every other kind one",
                 i, post->kind, post->operand));
    }
  }
  if (const uint32_t stores = rt::sdk::stored_outputs(op); stores > (op.is(RT_OP_MATMUL) ? 1 : 0)) {
    op.fail(
        format("has %u post-operations that store (kind %d); matmul may have one, other "
               "operations none",
               stores, RT_POST_STORE));
  }
  if (op.own_input_count() > desc.input_count) op.fail("more post-operands than inputs");
}

}  // namespace

void expect_counts(const Operation& op, uint32_t inputs, uint32_t outputs) {
  const uint32_t given = rt::sdk::own_output_count(op);
  if (op.own_input_count() != inputs || given != outputs) {
    op.fail(
        format("%u inputs and %u outputs given (those of post-operations not counted), expected "
               "%u and %u",
               op.own_input_count(), given, inputs, outputs));
  }
}

void expect_input(const Operation& op, uint32_t i, const char* name, rt_dtype dtype,
                  const Dims& dims) {
  expect(op, false, i, name, dtype, dims);
}

void expect_output(const Operation& op, uint32_t i, const char* name, rt_dtype dtype,
                   const Dims& dims) {
  expect(op, true, i, name, dtype, dims);
}

const rt_tensor_desc& input_of_rank(const Operation& op, uint32_t i, const char* name,
                                    int32_t rank) {
  return of_rank(op, false, i, name, rank);
}

const rt_tensor_desc& output_of_rank(const Operation& op, uint32_t i, const char* name,
                                     int32_t rank) {
  return of_rank(op, true, i, name, rank);
}

const rt_tensor_desc& input_of_min_rank(const Operation& op, uint32_t i, const char* name,
                                        int32_t rank) {
  const rt_tensor_desc& actual = op.input(i);
  if (actual.rank < rank) {
    op.fail(operand_text(false, i, name) + " is " + rt::sdk::to_string(actual) +
            ", expected at least " + std::to_string(rank) + " dimensions");
  }
  return actual;
}

rt_dtype floating_input(const Operation& op, uint32_t i, const char* name) {
  return floating(op, false, i, name);
}

rt_dtype floating_output(const Operation& op, uint32_t i, const char* name) {
  return floating(op, true, i, name);
}

int64_t integer_at_least(const Operation& op, const char* name, int64_t fallback, int64_t minimum) {
  const int64_t value = op.integer(name, fallback);
  if (value < minimum) {
    op.fail(format("%s is %lld, expected at least %lld", name, static_cast<long long>(value),
                   static_cast<long long>(minimum)));
  }
  return value;
}

int64_t axis_of(const Operation& op, int32_t rank) {
  const int64_t axis = op.integer(RT_ATTR_AXIS);
  if (axis < 0 || axis >= rank) {
    op.fail(format("axis is %lld, expected 0..%d", static_cast<long long>(axis), rank - 1));
  }
  return axis;
}

void expect_well_formed(const Operation& op, bool any_layout) {
  const rt_op_desc& desc = op.desc();
  for (uint32_t i = 0; i < desc.input_count; ++i) {
    expect_tensor(op, desc.inputs[i], false, i, any_layout);
  }
  for (uint32_t i = 0; i < desc.output_count; ++i) {
    expect_tensor(op, desc.outputs[i], true, i, any_layout);
  }
  for (uint32_t i = 0; i < desc.attribute_count; ++i) {
    const rt_attribute* a = desc.attributes[i];
    if (a->type != RT_ATTRIBUTE_INTEGER && a->type != RT_ATTRIBUTE_NUMBER) {
      op.fail(format("attribute '%s' has type %d, expected 1 (integer) or 2 (number)", a->name,
                     a->type));
    }
  }
  expect_post_operations(op);
}

}  // namespace backends::reference
