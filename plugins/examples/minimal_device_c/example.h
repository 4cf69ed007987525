/* What the files of the plugin share. One device, "example:0": the host's memory, work done in the
 * calling thread, float32, canonical layouts. */
#ifndef EXAMPLE_H_
#define EXAMPLE_H_

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/operations.h"
#include "rt/plugin.h"

/* Bytes; one cache line. Every allocation is aligned to it. */
#define EXAMPLE_ALIGNMENT 64

/* The instance that the host sees as `self`. */
typedef struct example_plugin {
  rt_plugin view;
  const rt_host* host;
} example_plugin;

struct rt_device {
  uint64_t limit_bytes;
  _Atomic uint64_t allocated_bytes;
};

struct rt_stream {
  rt_device* device;
};

struct rt_event {
  int64_t time_ns; /* of the last record; 0: never */
};

/* A plan keeps what it needs of the description: that is only borrowed during `create`. */
struct rt_plan {
  void (*run)(const rt_plan* plan, const rt_launch* launch);
  const char* implementation;
  rt_tensor_desc inputs[RT_MAX_INPUTS];
  rt_tensor_desc outputs[RT_MAX_OUTPUTS];
  uint32_t input_count;
  uint32_t output_count;
  uint32_t in_place; /* of output 0 */
  uint64_t workspace_bytes;
  /* Attributes, as far as the operation has them. */
  int32_t function;
  int32_t transpose_a, transpose_b;
  uint32_t axes;
  double alpha, beta, value, weight_decay;
};

/* Writes the error object and returns `code`. printf's rules. */
rt_status example_fail(rt_error* error, rt_status code, const char* pattern, ...)
    __attribute__((format(printf, 3, 4)));

/* RT_OK, or RT_ERROR_TOO_NEW if the struct at `input` (which begins with its size) carries
 * something behind the `known` bytes that this plugin was compiled with. */
rt_status example_check_input(const void* input, size_t known, const char* what, rt_error* error);

/* Gives an output struct to the host: the smaller of the two sizes counts, `size` stays the
 * host's. */
void example_write_output(void* output, const void* value, size_t known);

/* Checks an operation and fills `plan`. RT_OK; RT_ERROR_UNSUPPORTED with the reason in `error` if
 * this plugin does not do it; RT_ERROR_INVALID_ARGUMENT if nobody could. `*operand` is the input
 * in the way, outputs from 100, or -1. RT_LAYOUT_ANY is accepted if `any_layout`. */
rt_status example_describe(const rt_op_desc* op, int any_layout, rt_plan* plan, int32_t* operand,
                           rt_error* error);

int64_t example_count(const rt_tensor_desc* tensor);

/* The computations; check.c chooses. */
void example_matmul(const rt_plan* plan, const rt_launch* launch);
void example_activation(const rt_plan* plan, const rt_launch* launch);
void example_activation_backward(const rt_plan* plan, const rt_launch* launch);
void example_add(const rt_plan* plan, const rt_launch* launch);
void example_subtract(const rt_plan* plan, const rt_launch* launch);
void example_multiply(const rt_plan* plan, const rt_launch* launch);
void example_divide(const rt_plan* plan, const rt_launch* launch);
void example_scale(const rt_plan* plan, const rt_launch* launch);
void example_reduce(const rt_plan* plan, const rt_launch* launch);
void example_cross_entropy(const rt_plan* plan, const rt_launch* launch);
void example_cross_entropy_backward(const rt_plan* plan, const rt_launch* launch);
void example_correct_count(const rt_plan* plan, const rt_launch* launch);
void example_copy(const rt_plan* plan, const rt_launch* launch);
void example_fill(const rt_plan* plan, const rt_launch* launch);
void example_sgd(const rt_plan* plan, const rt_launch* launch);

/* The tables (device.c, kernel.c). */
extern const rt_device_api example_device_api;
extern const rt_kernel_api example_kernel_api;

#endif /* EXAMPLE_H_ */
