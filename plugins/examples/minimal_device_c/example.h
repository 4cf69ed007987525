/* Declarations that the files of the plugin share. The plugin has one device, "example:0". It uses
 * host memory, runs its work in the calling thread, and supports float32 in canonical layouts. */
#ifndef EXAMPLE_H_
#define EXAMPLE_H_

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/operations.h"
#include "rt/plugin.h"

/* The alignment of every allocation in bytes: one cache line. */
#define EXAMPLE_ALIGNMENT 64

/* The instance; the host passes its address as `self`. */
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
  int64_t time_ns; /* time of the last record; 0: never recorded */
};

/* A plan copies what it needs of the description, which is borrowed only during `create`. */
struct rt_plan {
  void (*run)(const rt_plan* plan, const rt_launch* launch);
  const char* implementation;
  rt_tensor_desc inputs[RT_MAX_INPUTS];
  rt_tensor_desc outputs[RT_MAX_OUTPUTS];
  uint32_t input_count;
  uint32_t output_count;
  uint32_t in_place; /* bit i: output 0 may use the memory of input i */
  uint64_t workspace_bytes;
  /* The attributes; those that the operation does not have are unused. */
  int32_t function;
  int32_t transpose_a, transpose_b;
  uint32_t axes;
  double alpha, beta, value, weight_decay;
};

/* Fills the rt_error, if there is one, with a message formatted like printf, and returns `code`. */
rt_status example_fail(rt_error* error, rt_status code, const char* pattern, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns RT_OK if the struct, which begins with its size, has at least `least` bytes: those of the
 * first release. Else, or if it is NULL, returns RT_ERROR_INVALID_ARGUMENT. */
rt_status example_check_size(const void* given, size_t least, const char* what, rt_error* error);

/* Checks an input struct as above. Returns RT_ERROR_TOO_NEW if any byte beyond the `known` bytes
 * that this plugin was compiled with is not zero. Fields of minor versions after 0 may lie beyond
 * the host's struct: read them from a copy by example_copy_input. */
rt_status example_check_input(const void* input, size_t least, size_t known, const char* what,
                              rt_error* error);

/* Copies a checked input struct to `copy`, a struct of `known` bytes. Fields that the host does not
 * know become zero. */
void example_copy_input(void* copy, const void* input, size_t known);

/* Fills `*output`, a struct of the host, from `*value`, a struct of `known` bytes. The host may
 * have been compiled with another version, so the field `size` of `*output` is its size there and
 * keeps its value, and only the bytes that both versions have are copied. */
void example_write_output(void* output, const void* value, size_t known);

/* example_check_input for the description of a tensor. */
rt_status example_check_tensor(const rt_tensor_desc* tensor, rt_error* error);

/* Checks an operation and fills `plan`. Returns RT_OK, RT_ERROR_UNSUPPORTED with the reason in
 * `error` if this plugin does not support the operation, or RT_ERROR_INVALID_ARGUMENT if the
 * operation is not valid. `*operand` becomes the index of the input that is the reason, 100 + index
 * for an output, or -1. RT_LAYOUT_ANY is accepted if `any_layout` is not 0. */
rt_status example_describe(const rt_op_desc* op, int any_layout, rt_plan* plan, int32_t* operand,
                           rt_error* error);

/* Returns the number of elements of a tensor. */
int64_t example_count(const rt_tensor_desc* tensor);

/* The computations of the operations. check.c chooses one for each plan. */
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

/* The tables of C functions (device.c, kernel.c). */
extern const rt_device_api example_device_api;
extern const rt_kernel_api example_kernel_api;

#endif /* EXAMPLE_H_ */
