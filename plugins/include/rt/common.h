/* Types that every table of the plugin contract shares: status codes, errors, data types, tensor
 * descriptions.
 *
 * C11 and C++. Rules that hold for every struct of the contract:
 *  - the first field `size` is sizeof(struct) as its *writer* was compiled. Fields are only ever
 * appended.
 *  - inputs: a callee that knows a shorter struct requires the unknown tail to be zero and
 * otherwise refuses the call with RT_ERROR_TOO_NEW. Function tables and outputs: the smaller of the
 * two sizes counts.
 *  - fixed-width integers, explicit padding (`reserved`, always zero), no bool, no enum, no
 * varargs.
 *  - strings are UTF-8, NUL-terminated, and borrowed for the call unless said otherwise.
 */
#ifndef RT_COMMON_H_
#define RT_COMMON_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Major version of the contract; plugin and host refuse each other when it differs. */
#define RT_ABI_MAJOR 1

/* Tensors have at most this many dimensions, operations at most this many operands in each
 * direction. */
#define RT_MAX_RANK 8
#define RT_MAX_INPUTS 16
#define RT_MAX_OUTPUTS 8

typedef int32_t rt_status;
#define RT_OK 0
#define RT_ERROR_INVALID_ARGUMENT 1 /* the caller broke a rule of the contract */
#define RT_ERROR_UNSUPPORTED 2      /* valid, but this plugin does not do it */
#define RT_ERROR_OUT_OF_MEMORY 3
#define RT_ERROR_UNAVAILABLE 4 /* driver or device missing */
#define RT_ERROR_TIMEOUT 5
#define RT_ERROR_ABORTED 6
#define RT_ERROR_DEVICE 7 /* the vendor's library or the device reported a failure */
#define RT_ERROR_COMMUNICATION 8
#define RT_ERROR_TOO_NEW 9 /* a struct carries a non-zero tail that the callee does not know */
#define RT_ERROR_VERSION 10
#define RT_ERROR_INTERNAL 11
#define RT_NOT_READY 12 /* answer of a query or poll; not an error, fills no rt_error */

/* What an error has put out of order; everything narrower still works. */
#define RT_SCOPE_OPERATION 0
#define RT_SCOPE_STREAM 1
#define RT_SCOPE_DEVICE 2
#define RT_SCOPE_COMMUNICATOR 3
#define RT_SCOPE_PROCESS 4

/* Filled by every fallible function that returns an error. The caller owns the memory (host memory
 * for errors, so a plugin never allocates one) and sets `size`; the callee writes the rest. May be
 * NULL: then only the code is known. */
typedef struct rt_error {
  uint32_t size;
  int32_t code;           /* the returned rt_status */
  int32_t scope;          /* RT_SCOPE_* */
  int32_t reserved;       /* 0 */
  int64_t native_code;    /* the vendor library's own code, 0 where there is none */
  char native_domain[32]; /* whose code that is: "oneDNN", "CUDA", "errno", ... */
  char message[968];      /* what was tried, actual value, expected value */
} rt_error;

/* Element types. Storage is dense and little-endian. */
typedef int32_t rt_dtype;
#define RT_FLOAT32 1
#define RT_FLOAT64 2
#define RT_FLOAT16 3
#define RT_BFLOAT16 4
#define RT_INT32 5
#define RT_INT64 6
#define RT_UINT8 7
#define RT_INT8 8
/* Bit of a type in a mask of types. */
#define RT_DTYPE_BIT(dtype) (UINT64_C(1) << (dtype))

/* Layouts. 0 is the canonical one: dense, row-major, the last dimension of `dims` contiguous. Any
 * other number is an id that only its own device understands; it means the same in every process
 * that uses the same plugin build. */
#define RT_LAYOUT_CANONICAL UINT64_C(0)
/* Only in rt_kernel_api.query: the backend may propose a layout for this operand. */
#define RT_LAYOUT_ANY UINT64_MAX

/* A tensor as an operand: what it is, not where. Images are N,H,W,C; convolution weights
 * O,H,W,I/groups. */
typedef struct rt_tensor_desc {
  uint32_t size;
  rt_dtype dtype;
  int32_t rank; /* 0..RT_MAX_RANK; rank 0 is a scalar of one element */
  int32_t reserved;
  int64_t dims[RT_MAX_RANK]; /* each >= 0; entries from `rank` on are 0 */
  uint64_t layout;           /* RT_LAYOUT_* or a foreign layout id */
} rt_tensor_desc;

/* A named setting, as given in [device.<plugin>] of the configuration. */
typedef struct rt_option {
  uint32_t size;
  uint32_t reserved;
  const char* key;
  const char* value;
} rt_option;

#ifdef __cplusplus
}
#endif

#endif /* RT_COMMON_H_ */
