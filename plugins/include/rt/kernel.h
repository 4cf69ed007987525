/* The kernel table: ask what a device can do (query), make a plan for fixed shapes (create), run it
 * (launch). Interface "rt.kernel", version 1. The operations themselves are in rt/operations.h and
 * ../operations.md.
 */
#ifndef RT_KERNEL_H_
#define RT_KERNEL_H_

#include "rt/common.h"
#include "rt/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RT_KERNEL_API_VERSION 1

typedef struct rt_plan rt_plan;

/* A typed attribute; the names and their types are listed with each operation. */
#define RT_ATTRIBUTE_INTEGER 1
#define RT_ATTRIBUTE_NUMBER 2
typedef struct rt_attribute {
  uint32_t size;
  int32_t type;
  const char* name;
  int64_t integer;
  double number;
} rt_attribute;

/* Something applied to the first output of an operation before it is stored, in the order given.
 * Kinds, their operand and formula are in operations.md. Operands of post-operations are appended
 * to the operation's inputs. */
#define RT_POST_BIAS 1                /* y += b, b [C] along the last dimension */
#define RT_POST_ACTIVATION 2          /* y = f(y); `function` */
#define RT_POST_RESIDUAL_ADD 3        /* y += r, r shaped like y */
#define RT_POST_ACTIVATION_BACKWARD 4 /* y = y * f'(.), from the saved operand, shaped like y */
typedef struct rt_post_op {
  uint32_t size;
  int32_t kind;
  int32_t function; /* RT_ACTIVATION_* of rt/operations.h */
  int32_t operand;  /* index into the inputs; -1: none */
} rt_post_op;

#define RT_OP_DETERMINISTIC \
  0x1u /* flag: only implementations whose result is the same bits every time */

/* An operation on operands of fixed shapes. Everything is borrowed for the call. */
typedef struct rt_op_desc {
  uint32_t size;
  uint32_t flags;
  const char* name; /* RT_OP_* of rt/operations.h */
  const rt_tensor_desc* const* inputs;
  const rt_tensor_desc* const* outputs;
  const rt_attribute* const* attributes;
  const rt_post_op* const* post_ops;
  uint32_t input_count;
  uint32_t output_count;
  uint32_t attribute_count;
  uint32_t post_op_count;
  /* For the backward of an operation that saves something: the forward plan. It outlives the
   * backward plan. In a query it may be NULL while no forward plan exists yet. */
  const rt_plan* forward;
  /* create: which candidate of `query`; 0: the backend's own choice for these layouts. */
  uint64_t algorithm;
} rt_op_desc;

#define RT_SUPPORT_REFUSED 0
#define RT_SUPPORT_EMULATED 1 /* correct, but not the fast way */
#define RT_SUPPORT_NATIVE 2

/* One way of doing the operation: a layout for each operand and an algorithm. */
typedef struct rt_candidate {
  uint32_t size;
  uint32_t reserved;
  uint64_t algorithm;  /* not 0 */
  double estimated_ns; /* one launch on the queried device, reorders not included; <= 0: unknown */
  uint64_t input_layouts[RT_MAX_INPUTS]; /* RT_LAYOUT_CANONICAL or foreign */
  uint64_t output_layouts[RT_MAX_OUTPUTS];
  uint64_t input_bytes[RT_MAX_INPUTS]; /* of each operand in that layout */
  uint64_t output_bytes[RT_MAX_OUTPUTS];
  char implementation[64];
} rt_candidate;

/* Answer of `query`. The caller provides `candidates` (may be NULL with capacity 0). */
typedef struct rt_support {
  uint32_t size;
  int32_t level;           /* RT_SUPPORT_* */
  uint32_t post_ops_fused; /* out: how many of the post-operations, counted from the first, every
                              listed candidate fuses; may differ with the layouts asked for */
  int32_t deterministic;   /* out: 1 if the default implementation gives the same bits every time */
  double tolerance;        /* out: relative to the reference, in the norm of each output */
  int32_t reason_operand;  /* out, if refused: index of the input that is in the way, outputs from
                              100; -1: none */
  uint32_t
      candidate_count; /* out: how many there are; the first min(count, capacity) were written */
  rt_candidate* candidates; /* in: array of `candidate_capacity` elements of sizeof(rt_candidate) as
                               `size` of [0] says */
  uint32_t candidate_capacity;
  uint32_t reserved;
  char reason[512]; /* out, if refused or emulated: why, and the nearest supported form */
} rt_support;

/* rt_plan_info.flags */
#define RT_PLAN_CAPTURABLE 0x1u
#define RT_PLAN_DETERMINISTIC 0x2u

typedef struct rt_plan_info {
  uint32_t size;
  uint32_t flags;
  uint64_t workspace_bytes; /* scratch during a launch; contents are lost afterwards */
  uint64_t saved_bytes;     /* what forward keeps for backward; 0: nothing */
  /* In-place pairs: bit i of in_place[j] says that output j may share the memory of input i. */
  uint32_t in_place[RT_MAX_OUTPUTS];
  char implementation[64];
} rt_plan_info;

/* Addresses for one launch, in the order of the description. Device memory, aligned as the
 * properties say. */
typedef struct rt_launch {
  uint32_t size;
  uint32_t input_count;
  const void* const* inputs;
  void* const* outputs;
  uint32_t output_count;
  uint32_t reserved;
  void* workspace; /* workspace_bytes, NULL if 0 */
  void* saved;     /* forward: written; backward: read. NULL if nothing is saved */
} rt_launch;

typedef struct rt_kernel_api {
  uint32_t size;
  uint32_t version; /* RT_KERNEL_API_VERSION */

  /* Can the device do this, how far can it fuse, in which layouts? Layouts given in the description
   * are fixed, except RT_LAYOUT_ANY. An operation that is refused is no error: RT_OK with level
   * RT_SUPPORT_REFUSED and a reason. `create` makes every listed candidate with the first
   * `post_ops_fused` post-operations. For other layouts of the same operation both may be other
   * ones, so an answer for RT_LAYOUT_ANY promises nothing for layouts that it does not list. Any
   * thread; may take milliseconds. */
  rt_status (*query)(rt_device* device, const rt_op_desc* op, rt_support* support, rt_error* error);

  /* Makes a plan. No layout may be RT_LAYOUT_ANY. All post-operations must be within the prefix
   * that `query` named for these layouts. Any thread; may block (compilation). */
  rt_status (*create)(rt_device* device, const rt_op_desc* op, rt_plan** plan, rt_error* error);
  void (*destroy)(rt_plan* plan);
  rt_status (*info)(const rt_plan* plan, rt_plan_info* info, rt_error* error);

  /* Queues the work. Plugin code allocates nothing; on a queued stream it waits for nothing. One
   * plan may be launched on several streams concurrently with different buffers. Operands other
   * than in-place pairs do not overlap. */
  rt_status (*launch)(rt_plan* plan, rt_stream* stream, const rt_launch* launch, rt_error* error);

  /* Bytes that a tensor takes in the layout of its description. */
  rt_status (*layout_bytes)(rt_device* device, const rt_tensor_desc* tensor, uint64_t* bytes,
                            rt_error* error);
  /* Text for a layout, for people: "nchw16c". Writes at most `capacity` bytes with the NUL. */
  rt_status (*layout_name)(rt_device* device, const rt_tensor_desc* tensor, char* name,
                           uint64_t capacity, rt_error* error);
} rt_kernel_api;

#ifdef __cplusplus
}
#endif

#endif /* RT_KERNEL_H_ */
