/* The kernel table. check.c checks the operations, compute.c computes them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "example.h"

static uint64_t bytes_of(const rt_tensor_desc* tensor) {
  return (uint64_t)example_count(tensor) * 4; /* float32 and int32 */
}

/* Writes the only candidate: all operands in canonical layouts. */
static void write_candidate(const rt_plan* plan, rt_support* support) {
  support->candidate_count = 1;
  if (support->candidates == NULL || support->candidate_capacity == 0) return;
  rt_candidate candidate = {.algorithm = 1, .estimated_ns = 0.0};
  for (uint32_t i = 0; i < plan->input_count; ++i) {
    candidate.input_bytes[i] = bytes_of(&plan->inputs[i]);
  }
  for (uint32_t i = 0; i < plan->output_count; ++i) {
    candidate.output_bytes[i] = bytes_of(&plan->outputs[i]);
  }
  snprintf(candidate.implementation, sizeof(candidate.implementation), "%s", plan->implementation);
  example_write_output(support->candidates, &candidate, sizeof(candidate));
}

static rt_status query(rt_device* device, const rt_op_desc* op, rt_support* support,
                       rt_error* error) {
  (void)device;
  rt_status status = example_check_size(support, RT_SUPPORT_SIZE_V1, "rt_support", error);
  if (status != RT_OK) return status;
  rt_plan plan = {0};
  rt_error reason = {.size = sizeof(reason)};
  int32_t operand = -1;
  status = example_describe(op, 1, &plan, &operand, &reason);
  support->post_ops_fused = 0;
  support->deterministic = 1;
  support->tolerance = 1e-5; /* sums in float32, in another order than the reference's */
  support->reason_operand = -1;
  support->candidate_count = 0;
  support->reason[0] = '\0';
  if (status == RT_ERROR_UNSUPPORTED) {
    support->level = RT_SUPPORT_REFUSED;
    support->reason_operand = operand;
    snprintf(support->reason, sizeof(support->reason), "%.500s", reason.message);
    return RT_OK;
  }
  if (status != RT_OK) return example_fail(error, status, "%.900s", reason.message);
  support->level = RT_SUPPORT_NATIVE;
  write_candidate(&plan, support);
  return RT_OK;
}

static rt_status create(rt_device* device, const rt_op_desc* op, rt_plan** result,
                        rt_error* error) {
  (void)device;
  rt_plan* plan = calloc(1, sizeof(*plan));
  if (plan == NULL) return example_fail(error, RT_ERROR_OUT_OF_MEMORY, "out of host memory");
  int32_t operand = -1;
  rt_status status = example_describe(op, 0, plan, &operand, error);
  if (status == RT_OK && op->post_op_count > 0) {
    status = example_fail(error, RT_ERROR_UNSUPPORTED,
                          "%s: %u post-operations; this plugin fuses none, as query says", op->name,
                          op->post_op_count);
  }
  if (status == RT_OK && op->algorithm > 1) {
    status = example_fail(error, RT_ERROR_INVALID_ARGUMENT, "%s: algorithm %llu; expected 0 or 1",
                          op->name, (unsigned long long)op->algorithm);
  }
  if (status != RT_OK) {
    free(plan);
    return status;
  }
  *result = plan;
  return RT_OK;
}

static void destroy(rt_plan* plan) { free(plan); }

static rt_status info(const rt_plan* plan, rt_plan_info* result, rt_error* error) {
  const rt_status status = example_check_size(result, RT_PLAN_INFO_SIZE_V1, "rt_plan_info", error);
  if (status != RT_OK) return status;
  rt_plan_info value = {
      .flags = RT_PLAN_DETERMINISTIC,
      .workspace_bytes = plan->workspace_bytes,
      .in_place = {plan->in_place},
  };
  snprintf(value.implementation, sizeof(value.implementation), "%s", plan->implementation);
  example_write_output(result, &value, sizeof(value));
  return RT_OK;
}

static rt_status launch(rt_plan* plan, rt_stream* stream, const rt_launch* launch,
                        rt_error* error) {
  (void)stream; /* the device is inline: the work runs now */
  const rt_status status =
      example_check_input(launch, RT_LAUNCH_SIZE_V1, sizeof(*launch), "rt_launch", error);
  if (status != RT_OK) return status;
  if (launch->input_count != plan->input_count || launch->output_count != plan->output_count) {
    return example_fail(error, RT_ERROR_INVALID_ARGUMENT,
                        "%s: launched with %u inputs and %u outputs, planned for %u and %u",
                        plan->implementation, launch->input_count, launch->output_count,
                        plan->input_count, plan->output_count);
  }
  if (plan->workspace_bytes > 0 && launch->workspace == NULL) {
    return example_fail(error, RT_ERROR_INVALID_ARGUMENT, "%s: no workspace; expected %llu bytes",
                        plan->implementation, (unsigned long long)plan->workspace_bytes);
  }
  plan->run(plan, launch);
  return RT_OK;
}

static rt_status layout_bytes(rt_device* device, const rt_tensor_desc* tensor, uint64_t* bytes,
                              rt_error* error) {
  (void)device;
  const rt_status status = example_check_tensor(tensor, error);
  if (status != RT_OK) return status;
  static const uint64_t kBytes[] = {0, 4, 8, 2, 2, 4, 8, 1, 1}; /* bytes by rt_dtype */
  if (tensor->layout != RT_LAYOUT_CANONICAL || tensor->dtype < 1 || tensor->dtype > RT_INT8) {
    return example_fail(error, RT_ERROR_UNSUPPORTED,
                        "layout %llu of dtype %d; this plugin has the canonical layout only",
                        (unsigned long long)tensor->layout, tensor->dtype);
  }
  *bytes = (uint64_t)example_count(tensor) * kBytes[tensor->dtype];
  return RT_OK;
}

static rt_status layout_name(rt_device* device, const rt_tensor_desc* tensor, char* name,
                             uint64_t capacity, rt_error* error) {
  (void)device;
  const rt_status status = example_check_tensor(tensor, error);
  if (status != RT_OK) return status;
  if (tensor->layout != RT_LAYOUT_CANONICAL) {
    return example_fail(error, RT_ERROR_UNSUPPORTED,
                        "layout %llu; this plugin has the canonical layout only",
                        (unsigned long long)tensor->layout);
  }
  if (capacity > 0) snprintf(name, capacity, "canonical");
  return RT_OK;
}

const rt_kernel_api example_kernel_api = {
    .size = sizeof(rt_kernel_api),
    .version = RT_KERNEL_API_VERSION,
    .query = query,
    .create = create,
    .destroy = destroy,
    .info = info,
    .launch = launch,
    .layout_bytes = layout_bytes,
    .layout_name = layout_name,
};
