/* The kernel table: `query` tells what a device can do, `create` makes a plan for fixed shapes,
 * `launch` runs it. Interface "rt.kernel", version 1. rt/operations.h names the operations and
 * ../operations.md defines them. */
#ifndef RT_KERNEL_H_
#define RT_KERNEL_H_

#include "rt/common.h"
#include "rt/device.h"
#include "rt/kernel_work.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RT_KERNEL_API_VERSION 1

/* A kernel for one operation on fixed shapes. Equivalent to: a primitive of oneDNN, a plan of
 * cuDNN. */
typedef struct rt_plan rt_plan;

/* A typed attribute of an operation. `type` says whether `integer` or `number` holds the value.
 * rt/operations.h lists the names and types. */
#define RT_ATTRIBUTE_INTEGER 1
#define RT_ATTRIBUTE_NUMBER 2
typedef struct rt_attribute {
  uint32_t size;
  int32_t type;     /* RT_ATTRIBUTE_* */
  const char* name; /* RT_ATTR_* of rt/operations.h */
  int64_t integer;  /* the value of RT_ATTRIBUTE_INTEGER; booleans are 0 and 1 */
  double number;    /* the value of RT_ATTRIBUTE_NUMBER */
} rt_attribute;
#define RT_ATTRIBUTE_SIZE_V1 32

/* A post-operation: a function that is applied to output 0 of an operation before the output is
 * stored. Post-operations are applied in the order given. Their operands follow the operation's own
 * inputs. operations.md defines the kinds. Equivalent to: post-ops of oneDNN. */
#define RT_POST_BIAS 1                /* y += b; b is [C], along the last dimension of y */
#define RT_POST_ACTIVATION 2          /* y = f(y), f given by `function` */
#define RT_POST_RESIDUAL_ADD 3        /* y += r; r has the shape of y */
#define RT_POST_ACTIVATION_BACKWARD 4 /* y = y * f'(s), s the saved operand, shaped like y */
/* Since minor version 1: y is also stored in the last output, which has the shape of y; the
 * post-operations that follow do not change what is stored. */
#define RT_POST_STORE 5
typedef struct rt_post_op {
  uint32_t size;
  int32_t kind;     /* RT_POST_* */
  int32_t function; /* RT_ACTIVATION_* of rt/operations.h */
  int32_t operand;  /* index of the operand among the inputs; -1: the post-operation has none */
} rt_post_op;
#define RT_POST_OP_SIZE_V1 16

/* rt_op_desc.flags: require an implementation whose result has the same bits every time. */
#define RT_OP_DETERMINISTIC 0x1u

/* An operation on operands of fixed shapes. The plugin may use the struct and everything that it
 * points to only during the call; `forward` alone lives longer. */
typedef struct rt_op_desc {
  uint32_t size;
  uint32_t flags;                        /* RT_OP_DETERMINISTIC, or 0 */
  const char* name;                      /* RT_OP_* of rt/operations.h */
  const rt_tensor_desc* const* inputs;   /* those of the operation, then of post-operations */
  const rt_tensor_desc* const* outputs;  /* those of the operation, then of RT_POST_STORE */
  const rt_attribute* const* attributes; /* in any order; absent ones have their default */
  const rt_post_op* const* post_ops;     /* in the order in which they are applied */
  uint32_t input_count;                  /* elements of `inputs`; the other counts likewise */
  uint32_t output_count;
  uint32_t attribute_count;
  uint32_t post_op_count;
  /* Only for the backward operation of a forward operation that saves data: the forward plan. It
   * outlives the backward plan. In a query it may be NULL if no forward plan exists yet. */
  const rt_plan* forward;
  /* Used by `create`: rt_candidate.algorithm of the candidate to make. 0: the backend chooses for
   * these layouts. */
  uint64_t algorithm;
  /* Since minor version 2, used by `create`: what the operation is for, as in "layer 'conv1'". A
   * launch that fails later than its call says it in its message. NULL: the host does not tell. */
  const char* label;
} rt_op_desc;
#define RT_OP_DESC_SIZE_V1 80

/* rt_support.level. */
#define RT_SUPPORT_REFUSED 0  /* this device does not do it */
#define RT_SUPPORT_EMULATED 1 /* the result is correct, but the implementation is slow */
#define RT_SUPPORT_NATIVE 2   /* the result is correct, by an implementation made for it */

/* A candidate: one implementation of an operation that the plugin offers, with a layout for each
 * operand. */
typedef struct rt_candidate {
  uint32_t size;
  uint32_t reserved;
  uint64_t algorithm;  /* id of the implementation for rt_op_desc.algorithm; not 0 */
  double estimated_ns; /* estimated time of one launch, without reorders; <= 0: unknown */
  uint64_t input_layouts[RT_MAX_INPUTS];   /* RT_LAYOUT_CANONICAL or a foreign layout */
  uint64_t output_layouts[RT_MAX_OUTPUTS]; /* the same of the outputs */
  uint64_t input_bytes[RT_MAX_INPUTS];     /* size of each input in that layout */
  uint64_t output_bytes[RT_MAX_OUTPUTS];   /* the same of the outputs */
  char implementation[64];                 /* its name for people, as `runtime plan` shows it */
} rt_candidate;
#define RT_CANDIDATE_SIZE_V1 472

/* The answer of `query`. The caller owns the struct and the array `candidates`, which may be NULL
 * if `candidate_capacity` is 0. Fields marked "out" are written by the plugin. */
typedef struct rt_support {
  uint32_t size;
  int32_t level;           /* out: RT_SUPPORT_* */
  uint32_t post_ops_fused; /* out: every listed candidate fuses this many post-operations, counted
                              from the first; the number may differ for other layouts */
  int32_t deterministic;   /* out: 1 if algorithm 0 gives the same bits every time */
  double tolerance;        /* out: relative error to the reference, in each output's norm */
  int32_t reason_operand;  /* out, if refused: index of the input that prevents support; 100 + index
                              for an output; -1: none */
  uint32_t candidate_count; /* out: how many there are; min(count, capacity) were written */
  rt_candidate* candidates; /* in: array of `candidate_capacity` elements; candidates[0].size is the
                               size of each element in bytes */
  uint32_t candidate_capacity; /* in: elements that `candidates` has room for */
  uint32_t reserved;
  char reason[512]; /* out, if refused or emulated: why, and the nearest form that is supported */
} rt_support;
#define RT_SUPPORT_SIZE_V1 560

/* rt_plan_info.flags */
#define RT_PLAN_CAPTURABLE 0x1u    /* launches may be recorded, see rt/capture.h */
#define RT_PLAN_DETERMINISTIC 0x2u /* the result has the same bits every time */

/* What the host must know of a plan to launch it. Sizes are in bytes. */
typedef struct rt_plan_info {
  uint32_t size;
  uint32_t flags;           /* RT_PLAN_* */
  uint64_t workspace_bytes; /* scratch memory for one launch; the contents are lost afterwards */
  uint64_t saved_bytes;     /* what the forward launch keeps for the backward launch; 0: nothing */
  /* In-place pairs: if bit i of in_place[j] is set, output j may use the memory of input i. */
  uint32_t in_place[RT_MAX_OUTPUTS];
  char implementation[64]; /* that of the candidate */
  /* Since minor version 1: the kernels that one launch queues, in their order. The array belongs to
   * the plan and lives as long as it; its elements are work[0].size bytes apart. NULL: the plugin
   * does not tell. */
  const rt_kernel_work* work;
  uint32_t work_count; /* elements of `work` */
  uint32_t reserved;
} rt_plan_info;
#define RT_PLAN_INFO_SIZE_V1 120

/* Addresses for one launch, in the order of the operation's description. All are in device memory
 * and aligned to rt_device_properties.alignment. */
typedef struct rt_launch {
  uint32_t size;
  uint32_t input_count;      /* elements of `inputs`: as many as the description has */
  const void* const* inputs; /* the address of each input */
  void* const* outputs;      /* the address of each output */
  uint32_t output_count;     /* elements of `outputs` */
  uint32_t reserved;
  void* workspace; /* rt_plan_info.workspace_bytes of scratch memory; NULL if that is 0 */
  void* saved;     /* forward: written; backward: read. NULL if saved_bytes is 0 */
} rt_launch;
#define RT_LAUNCH_SIZE_V1 48

/* The functions of the interface. The plugin owns the table; no slot may be NULL. */
typedef struct rt_kernel_api {
  uint32_t size;
  uint32_t version; /* RT_KERNEL_API_VERSION */

  /* Tells whether the device supports the operation, how many post-operations it can fuse, and in
   * which layouts. Layouts in the description are fixed, except RT_LAYOUT_ANY. Refusing an
   * operation is not an error: the function returns RT_OK with level RT_SUPPORT_REFUSED and a
   * reason. `create` can make every listed candidate with the first `post_ops_fused`
   * post-operations. Other layouts of the same operation may have other candidates and another
   * `post_ops_fused`; an answer for RT_LAYOUT_ANY therefore promises nothing for layouts that it
   * does not list. May be called from any thread; may take milliseconds. */
  rt_status (*query)(rt_device* device, const rt_op_desc* op, rt_support* support, rt_error* error);

  /* Makes a plan that the caller destroys. No layout may be RT_LAYOUT_ANY, and there may be at most
   * as many post-operations as `query` answered in `post_ops_fused` for these layouts. May be
   * called from any thread; may block, for example to compile a kernel. */
  rt_status (*create)(rt_device* device, const rt_op_desc* op, rt_plan** plan, rt_error* error);
  /* Frees a plan. The host destroys a backward plan before its forward plan. */
  void (*destroy)(rt_plan* plan);
  /* Fills what the host must know to launch the plan. Any thread. */
  rt_status (*info)(const rt_plan* plan, rt_plan_info* info, rt_error* error);

  /* Queues one run of the plan on the stream. The plugin allocates nothing, and it waits for
   * nothing unless the device has the flag RT_DEVICE_INLINE. One plan may be launched concurrently
   * on several streams with different buffers. Operands must not overlap, except for in-place
   * pairs. */
  rt_status (*launch)(rt_plan* plan, rt_stream* stream, const rt_launch* launch, rt_error* error);

  /* Returns the number of bytes that a tensor takes in the layout of its description. */
  rt_status (*layout_bytes)(rt_device* device, const rt_tensor_desc* tensor, uint64_t* bytes,
                            rt_error* error);
  /* Writes a name of the layout that people can read, such as "nchw16c": at most `capacity` bytes,
   * including the NUL. */
  rt_status (*layout_name)(rt_device* device, const rt_tensor_desc* tensor, char* name,
                           uint64_t capacity, rt_error* error);
} rt_kernel_api;
#define RT_KERNEL_API_SIZE_V1 64

#ifdef __cplusplus
}
#endif

#endif /* RT_KERNEL_H_ */
