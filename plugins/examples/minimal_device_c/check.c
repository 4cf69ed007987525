/* The list of supported operations, with the shapes, types and attributes that each of them takes.
 */
#include <stdio.h>
#include <string.h>

#include "example.h"

/* The arguments of a check. A check that refuses sets `*operand` to the index of the operand that
 * is the reason; query answers it in rt_support.reason_operand. */
typedef struct context {
  const rt_op_desc* op;
  rt_plan* plan;
  int32_t* operand;
  rt_error* error;
} context;

typedef struct rule {
  const char* name;
  uint32_t inputs;
  uint32_t outputs;
  void (*run)(const rt_plan* plan, const rt_launch* launch);
  rt_status (*check)(const context* c);
} rule;

static rt_status unsupported(const context* c, int32_t operand, const char* what) {
  *c->operand = operand;
  return example_fail(c->error, RT_ERROR_UNSUPPORTED, "%s: %s", c->op->name, what);
}

static rt_status invalid(const context* c, int32_t operand, const char* what) {
  *c->operand = operand;
  return example_fail(c->error, RT_ERROR_INVALID_ARGUMENT, "%s: operand %d %s", c->op->name,
                      operand, what);
}

static const rt_attribute* find(const context* c, const char* name) {
  for (uint32_t i = 0; i < c->op->attribute_count; ++i) {
    if (strcmp(c->op->attributes[i]->name, name) == 0) return c->op->attributes[i];
  }
  return NULL;
}

static double number(const context* c, const char* name, double fallback) {
  const rt_attribute* attribute = find(c, name);
  if (attribute == NULL) return fallback;
  return attribute->type == RT_ATTRIBUTE_INTEGER ? (double)attribute->integer : attribute->number;
}

static int64_t integer(const context* c, const char* name, int64_t fallback) {
  return (int64_t)number(c, name, (double)fallback);
}

static int same_dims(const rt_tensor_desc* a, const rt_tensor_desc* b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, sizeof(int64_t) * (size_t)a->rank) == 0;
}

static int is_scalar(const rt_tensor_desc* tensor) { return example_count(tensor) == 1; }

/* All inputs and the output must have the same dims. The output may use the memory of any one of
 * the inputs. */
static rt_status check_same(const context* c) {
  for (uint32_t i = 0; i < c->plan->input_count; ++i) {
    if (!same_dims(&c->plan->inputs[i], &c->plan->outputs[0])) {
      return invalid(c, (int32_t)i, "does not have the dims of the output");
    }
    c->plan->in_place |= 1u << i;
  }
  return RT_OK;
}

static rt_status check_activation(const context* c) {
  c->plan->function = (int32_t)integer(c, RT_ATTR_FUNCTION, 0);
  if (c->plan->function < RT_ACTIVATION_RELU || c->plan->function > RT_ACTIVATION_SIGMOID) {
    return unsupported(c, -1, "attribute 'function' is missing or unknown; expected 1 to 5");
  }
  return check_same(c);
}

static rt_status check_scale(const context* c) {
  c->plan->alpha = number(c, RT_ATTR_ALPHA, 1.0);
  c->plan->beta = number(c, RT_ATTR_BETA, 0.0);
  return check_same(c);
}

static rt_status check_copy(const context* c) {
  if (c->plan->inputs[0].dtype != c->plan->outputs[0].dtype) {
    return invalid(c, 100, "does not have the dtype of operand 0; copy does not convert");
  }
  const rt_status status = check_same(c);
  c->plan->in_place = 0;
  return status;
}

static rt_status check_fill(const context* c) {
  c->plan->value = number(c, RT_ATTR_VALUE, 0.0);
  return RT_OK;
}

/* Broadcasting as in numpy: dims are compared from the last one on, and a dim of 1 is repeated. */
static rt_status check_broadcast(const context* c) {
  const rt_tensor_desc* result = &c->plan->outputs[0];
  for (uint32_t i = 0; i < 2; ++i) {
    const rt_tensor_desc* tensor = &c->plan->inputs[i];
    if (tensor->rank > result->rank) return invalid(c, (int32_t)i, "has more dims than the output");
    for (int32_t d = 1; d <= tensor->rank; ++d) {
      const int64_t size = tensor->dims[tensor->rank - d];
      if (size != 1 && size != result->dims[result->rank - d]) {
        return invalid(c, (int32_t)i, "cannot be broadcast to the output");
      }
    }
    if (same_dims(tensor, result)) c->plan->in_place |= 1u << i;
  }
  return RT_OK;
}

static rt_status check_matmul(const context* c) {
  rt_plan* plan = c->plan;
  const rt_tensor_desc *a = &plan->inputs[0], *b = &plan->inputs[1], *y = &plan->outputs[0];
  plan->transpose_a = integer(c, RT_ATTR_TRANSPOSE_A, 0) != 0;
  plan->transpose_b = integer(c, RT_ATTR_TRANSPOSE_B, 0) != 0;
  if (a->rank < 2) return invalid(c, 0, "has fewer than 2 dims");
  if (b->rank < 2) return invalid(c, 1, "has fewer than 2 dims");
  if (y->rank != a->rank) return invalid(c, 100, "does not have as many dims as operand 0");
  if (b->rank != 2 && b->rank != a->rank) return invalid(c, 1, "has other leading dims");
  for (int32_t i = 0; i < a->rank - 2; ++i) {
    if (y->dims[i] != a->dims[i]) return invalid(c, 100, "has other leading dims than operand 0");
    if (b->rank > 2 && b->dims[i] != a->dims[i]) return invalid(c, 1, "has other leading dims");
  }
  const int64_t m = a->dims[a->rank - (plan->transpose_a ? 1 : 2)];
  const int64_t k = a->dims[a->rank - (plan->transpose_a ? 2 : 1)];
  const int64_t b_k = b->dims[b->rank - (plan->transpose_b ? 1 : 2)];
  const int64_t n = b->dims[b->rank - (plan->transpose_b ? 2 : 1)];
  if (b_k != k) return invalid(c, 1, "does not have the K of operand 0");
  if (y->dims[y->rank - 2] != m || y->dims[y->rank - 1] != n)
    return invalid(c, 100, "is not [M,N]");
  if (plan->transpose_b) plan->workspace_bytes = (uint64_t)(k * n) * sizeof(float);
  return RT_OK;
}

/* y keeps the reduced axes with length 1, or leaves them out. */
static rt_status check_reduce(const context* c) {
  rt_plan* plan = c->plan;
  const rt_tensor_desc *x = &plan->inputs[0], *y = &plan->outputs[0];
  plan->function = (int32_t)integer(c, RT_ATTR_FUNCTION, 0);
  plan->axes = (uint32_t)integer(c, RT_ATTR_AXES, 0);
  if (plan->function < RT_REDUCE_SUM || plan->function > RT_REDUCE_MAX) {
    return unsupported(c, -1, "attribute 'function' is missing or unknown; expected 1 to 3");
  }
  if (plan->axes >> x->rank) return invalid(c, 0, "has fewer dims than attribute 'axes' names");
  const int keeps = y->rank == x->rank;
  int32_t next = 0;
  for (int32_t i = 0; i < x->rank; ++i) {
    const int reduced = (plan->axes >> i) & 1u;
    if (reduced && !keeps) continue;
    if (next >= y->rank || y->dims[next] != (reduced ? 1 : x->dims[i])) {
      return invalid(c, 100, "does not have the dims of operand 0 with 'axes' reduced");
    }
    ++next;
  }
  return next == y->rank ? RT_OK : invalid(c, 100, "has too many dims");
}

/* Checks logits [...,C], labels [...], weight [...]. */
static rt_status check_classes(const context* c) {
  const rt_tensor_desc* logits = &c->plan->inputs[0];
  if (logits->rank < 1 || logits->dims[logits->rank - 1] < 1) {
    return invalid(c, 0, "has no classes");
  }
  for (int32_t i = 1; i <= 2; ++i) {
    const rt_tensor_desc* rows = &c->plan->inputs[i];
    if (rows->rank != logits->rank - 1 ||
        memcmp(rows->dims, logits->dims, sizeof(int64_t) * (size_t)rows->rank) != 0) {
      return invalid(c, i, "does not have one number for each row of operand 0");
    }
  }
  return RT_OK;
}

static rt_status check_class_sum(const context* c) {
  if (!is_scalar(&c->plan->outputs[0])) return invalid(c, 100, "does not have one element");
  return check_classes(c);
}

static rt_status check_class_gradient(const context* c) {
  if (!is_scalar(&c->plan->inputs[3])) return invalid(c, 3, "does not have one element");
  if (!same_dims(&c->plan->inputs[0], &c->plan->outputs[0])) {
    return invalid(c, 100, "does not have the dims of operand 0");
  }
  return check_classes(c);
}

static rt_status check_sgd(const context* c) {
  c->plan->weight_decay = number(c, RT_ATTR_WEIGHT_DECAY, 0.0);
  if (number(c, RT_ATTR_MOMENTUM, 0.0) != 0.0) {
    return unsupported(c, -1, "momentum is not supported; only 0 is");
  }
  if (!same_dims(&c->plan->inputs[0], &c->plan->inputs[1])) {
    return invalid(c, 1, "does not have the dims of operand 0");
  }
  if (!same_dims(&c->plan->inputs[0], &c->plan->outputs[0])) {
    return invalid(c, 100, "does not have the dims of operand 0");
  }
  for (int32_t i = 2; i <= 3; ++i) {
    if (!is_scalar(&c->plan->inputs[i])) return invalid(c, i, "does not have one element");
  }
  c->plan->in_place = 1u;
  return RT_OK;
}

static const rule kRules[] = {
    {RT_OP_MATMUL, 2, 1, example_matmul, check_matmul},
    {RT_OP_ACTIVATION, 1, 1, example_activation, check_activation},
    {RT_OP_ACTIVATION_BACKWARD, 2, 1, example_activation_backward, check_activation},
    {RT_OP_ADD, 2, 1, example_add, check_broadcast},
    {RT_OP_SUBTRACT, 2, 1, example_subtract, check_broadcast},
    {RT_OP_MULTIPLY, 2, 1, example_multiply, check_broadcast},
    {RT_OP_DIVIDE, 2, 1, example_divide, check_broadcast},
    {RT_OP_SCALE, 1, 1, example_scale, check_scale},
    {RT_OP_REDUCE, 1, 1, example_reduce, check_reduce},
    {RT_OP_CROSS_ENTROPY, 3, 1, example_cross_entropy, check_class_sum},
    {RT_OP_CROSS_ENTROPY_BACKWARD, 4, 1, example_cross_entropy_backward, check_class_gradient},
    {RT_OP_CORRECT_COUNT, 3, 1, example_correct_count, check_class_sum},
    {RT_OP_COPY, 1, 1, example_copy, check_copy},
    {RT_OP_FILL, 0, 1, example_fill, check_fill},
    {RT_OP_SGD, 4, 1, example_sgd, check_sgd},
};

static const rule* find_rule(const char* name) {
  for (size_t i = 0; i < sizeof(kRules) / sizeof(kRules[0]); ++i) {
    if (strcmp(kRules[i].name, name) == 0) return &kRules[i];
  }
  return NULL;
}

/* Labels must be int32; `copy` takes int32 too; all other operands must be float32. */
static int dtype_allowed(const rule* r, int32_t operand, rt_dtype dtype) {
  if (r->run == example_copy) return dtype == RT_FLOAT32 || dtype == RT_INT32;
  const int is_label =
      operand == 1 && (r->check == check_class_sum || r->check == check_class_gradient);
  return dtype == (is_label ? RT_INT32 : RT_FLOAT32);
}

rt_status example_check_tensor(const rt_tensor_desc* tensor, rt_error* error) {
  return example_check_input(tensor, RT_TENSOR_DESC_SIZE_V1, sizeof(*tensor), "rt_tensor_desc",
                             error);
}

static rt_status take_operand(const context* c, const rule* r, const rt_tensor_desc* tensor,
                              int32_t operand, int any_layout, rt_tensor_desc* copy) {
  const rt_status status = example_check_tensor(tensor, c->error);
  if (status != RT_OK) return status;
  if (tensor->rank < 0 || tensor->rank > RT_MAX_RANK)
    return invalid(c, operand, "has a wrong rank");
  if (!dtype_allowed(r, operand, tensor->dtype)) {
    return unsupported(c, operand, "this dtype is not supported; float32 is, int32 for labels");
  }
  if (tensor->layout != RT_LAYOUT_CANONICAL && !(any_layout && tensor->layout == RT_LAYOUT_ANY)) {
    return unsupported(c, operand, "this layout is not supported; the canonical one is");
  }
  example_copy_input(copy, tensor, sizeof(*copy));
  copy->layout = RT_LAYOUT_CANONICAL;
  return RT_OK;
}

static rt_status take_operands(const context* c, const rule* r, int any_layout) {
  const rt_op_desc* op = c->op;
  rt_plan* plan = c->plan;
  /* The operands of post-operations follow the operation's own inputs. query must accept them: it
   * answers that this plugin fuses no post-operation (post_ops_fused is 0), and the host then runs
   * the post-operations as operations of their own. create refuses them. */
  if (op->input_count < r->inputs || (op->input_count > r->inputs && op->post_op_count == 0)) {
    return unsupported(c, (int32_t)r->inputs, "another number of inputs than this plugin knows");
  }
  if (op->output_count != r->outputs) {
    return unsupported(c, 100, "another number of outputs than this plugin knows");
  }
  plan->input_count = r->inputs;
  plan->output_count = r->outputs;
  rt_status status = RT_OK;
  for (uint32_t i = 0; i < r->inputs && status == RT_OK; ++i) {
    status = take_operand(c, r, op->inputs[i], (int32_t)i, any_layout, &plan->inputs[i]);
  }
  if (status != RT_OK) return status;
  return take_operand(c, r, op->outputs[0], 100, any_layout, &plan->outputs[0]);
}

/* This plugin applies no post-operations, but it must not accept any that it does not understand.
 */
static rt_status check_parts(const rt_op_desc* op, rt_error* error) {
  rt_status status = RT_OK;
  for (uint32_t i = 0; i < op->attribute_count && status == RT_OK; ++i) {
    status = example_check_input(op->attributes[i], RT_ATTRIBUTE_SIZE_V1, sizeof(rt_attribute),
                                 "rt_attribute", error);
  }
  for (uint32_t i = 0; i < op->post_op_count && status == RT_OK; ++i) {
    status = example_check_input(op->post_ops[i], RT_POST_OP_SIZE_V1, sizeof(rt_post_op),
                                 "rt_post_op", error);
  }
  return status;
}

rt_status example_describe(const rt_op_desc* op, int any_layout, rt_plan* plan, int32_t* operand,
                           rt_error* error) {
  *operand = -1;
  rt_status status = example_check_input(op, RT_OP_DESC_SIZE_V1, sizeof(*op), "rt_op_desc", error);
  if (status == RT_OK) status = check_parts(op, error);
  if (status != RT_OK) return status;
  const context c = {op, plan, operand, error};
  const rule* r = find_rule(op->name);
  if (r == NULL) {
    return unsupported(&c, -1, "this plugin has only the mandatory operations");
  }
  status = take_operands(&c, r, any_layout);
  if (status != RT_OK) return status;
  plan->run = r->run;
  plan->implementation = r->name;
  return r->check(&c);
}
