// Checks that descriptions are well formed before a reference kernel reads them.
#include "backends/reference/check.h"

#include <limits>

#include "rt/sdk/post_ops.h"

namespace backends::reference {

using rt::sdk::format;

namespace {

rt_dtype floating(const Operation& op, bool output, uint32_t i, const char* name) {
  const rt_tensor_desc& actual = output ? op.output(i) : op.input(i);
  if (actual.dtype != RT_FLOAT32 && actual.dtype != RT_FLOAT64) {
    throw Refusal(static_cast<int32_t>(output ? rt::sdk::kFirstOutput + i : i),
                  std::string(op.name()) + ": " + rt::sdk::operand_text(output, i, name) + " is " +
                      rt::sdk::to_string(actual.dtype) +
                      "; the reference computes in float32 and float64, and stores float16 and "
                      "bfloat16 too; cast the operand to one of them");
  }
  return actual.dtype;
}

void expect_sane_tensor(const Operation& op, const rt_tensor_desc* tensor, bool output, uint32_t i,
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
    throw Refusal(static_cast<int32_t>(output ? rt::sdk::kFirstOutput + i : i),
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

rt_dtype floating_input(const Operation& op, uint32_t i, const char* name) {
  return floating(op, false, i, name);
}

rt_dtype floating_output(const Operation& op, uint32_t i, const char* name) {
  return floating(op, true, i, name);
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
    expect_sane_tensor(op, desc.inputs[i], false, i, any_layout);
  }
  for (uint32_t i = 0; i < desc.output_count; ++i) {
    expect_sane_tensor(op, desc.outputs[i], true, i, any_layout);
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
