/* Types that every table of the plugin contract shares: status codes, errors, data types, tensor
 * descriptions.
 *
 * C11, and also valid C++, for 64-bit systems. These rules hold for every struct of the contract:
 *  - The first field, `size`, is sizeof(struct) as compiled into the code that allocates the
 * struct. New fields are only ever appended.
 *  - RT_<STRUCT>_SIZE_V1 is the size in the first release. A struct that is shorter is refused;
 *    fields beyond `size` count as zero, or as absent. sizeof is never the least size.
 *  - Inputs: a callee that knows a shorter struct requires the bytes beyond it to be zero and
 *    otherwise refuses the call with RT_ERROR_TOO_NEW.
 *  - Function tables and outputs: both sides use only the smaller of the two sizes.
 *  - Arrays of outputs: the caller sets `size` of the first element, which is the distance in bytes
 *    from one element to the next.
 *  - Structs hold fixed-width integers and explicit padding (`reserved`, always zero). There is no
 *    bool, no enum and no function with variable arguments.
 *  - RT_<TABLE>_API_VERSION is the version of a function table, which the host and the plugin name
 *    when they ask each other for it.
 *  - Strings are UTF-8 and NUL-terminated. The callee may use them only during the call, unless a
 *    comment says otherwise. */
#ifndef RT_COMMON_H_
#define RT_COMMON_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Major version of the contract. A plugin and a host with different major versions refuse each
 * other. */
#define RT_ABI_MAJOR 1
/* Minor version of the contract. It increases with each release that appends fields, operations or
 * other values. A plugin says which one it was compiled with in rt_negotiation.plugin_minor; the
 * host leaves what is newer than that at zero. Every minor version works with every other one. */
#define RT_ABI_MINOR 2

/* Largest number of dimensions of a tensor, and of inputs and outputs of an operation. */
#define RT_MAX_RANK 8
#define RT_MAX_INPUTS 16
#define RT_MAX_OUTPUTS 8

/* Result of every function that can fail. */
typedef int32_t rt_status;
#define RT_OK 0                     /* the function has done what it is for */
#define RT_ERROR_INVALID_ARGUMENT 1 /* the caller broke a rule of the contract */
#define RT_ERROR_UNSUPPORTED 2   /* the request is valid, but this plugin does not implement it */
#define RT_ERROR_OUT_OF_MEMORY 3 /* host or device memory */
#define RT_ERROR_UNAVAILABLE 4   /* the driver or the device is missing */
#define RT_ERROR_TIMEOUT 5       /* the deadline has passed */
#define RT_ERROR_ABORTED 6       /* rt_communicator_api.abort was called */
#define RT_ERROR_DEVICE 7        /* the vendor's library or the device reported a failure */
#define RT_ERROR_COMMUNICATION 8 /* a connection or another rank failed */
#define RT_ERROR_TOO_NEW 9   /* an input struct has a non-zero tail that the callee does not know */
#define RT_ERROR_VERSION 10  /* plugin and host speak different major versions */
#define RT_ERROR_INTERNAL 11 /* a fault in the plugin or the host itself */
#define RT_NOT_READY 12 /* the answer of a query or poll; not an error, rt_error is not filled */

/* rt_error.scope: the widest object that can no longer be used after the error. After
 * RT_SCOPE_STREAM, for example, other streams of the device still work. */
#define RT_SCOPE_OPERATION 0    /* only this call failed; everything can still be used */
#define RT_SCOPE_STREAM 1       /* the rt_stream of the call */
#define RT_SCOPE_DEVICE 2       /* the rt_device and all that was made from it */
#define RT_SCOPE_COMMUNICATOR 3 /* the rt_communicator of the call */
#define RT_SCOPE_PROCESS 4      /* every object of this plugin in the process */

/* Details of an error. The caller owns the struct and sets `size`; a function that returns an error
 * code writes the other fields. The struct has fixed arrays, so that a plugin allocates nothing to
 * report an error. The caller may pass NULL and then learns only the code. */
typedef struct rt_error {
  uint32_t size;
  int32_t code;           /* the returned rt_status */
  int32_t scope;          /* RT_SCOPE_* */
  int32_t reserved;       /* 0 */
  int64_t native_code;    /* the code of the vendor's library; 0 if there is none */
  char native_domain[32]; /* the origin of native_code: "oneDNN", "CUDA", "errno", ... */
  char message[968];      /* what was tried, the actual value, the expected value */
} rt_error;
#define RT_ERROR_SIZE_V1 1024

/* Element types. Elements are stored densely and little-endian. Equivalent to: torch.dtype. */
typedef int32_t rt_dtype;
#define RT_FLOAT32 1  /* IEEE 754 binary32 */
#define RT_FLOAT64 2  /* IEEE 754 binary64 */
#define RT_FLOAT16 3  /* IEEE 754 binary16 */
#define RT_BFLOAT16 4 /* the upper 16 bits of a binary32 */
#define RT_INT32 5    /* two's complement, as the other integers */
#define RT_INT64 6
#define RT_UINT8 7
#define RT_INT8 8
/* The bit that stands for an element type in a mask of types. */
#define RT_DTYPE_BIT(dtype) (UINT64_C(1) << (dtype))

/* Layouts: how the elements of a tensor are ordered in memory. Layout 0 is the canonical layout:
 * dense, row-major, the last dimension of `dims` contiguous. Every other value is a foreign layout,
 * an id that only the plugin that made it can interpret. An id means the same in every process that
 * uses the same build of the plugin. */
#define RT_LAYOUT_CANONICAL UINT64_C(0)
/* Allowed only in rt_kernel_api.query: the backend may propose a layout for this operand. */
#define RT_LAYOUT_ANY UINT64_MAX

/* The type, shape and layout of an operand, without its address. Images are N,H,W,C (batch, height,
 * width, channels); convolution weights are O,H,W,I/groups (output channels, height, width, input
 * channels per group). */
typedef struct rt_tensor_desc {
  uint32_t size;
  rt_dtype dtype; /* type of each element */
  int32_t rank;   /* 0..RT_MAX_RANK; rank 0 is a scalar with one element */
  int32_t reserved;
  int64_t dims[RT_MAX_RANK]; /* each >= 0; entries from `rank` on are 0 */
  uint64_t layout;           /* RT_LAYOUT_* or the id of a foreign layout */
} rt_tensor_desc;
#define RT_TENSOR_DESC_SIZE_V1 88

/* One key and its value, as text, from [device.<plugin>], [comm.<plugin>] or [dataset.<plugin>] of
 * the configuration. The host has refused unknown keys already. */
typedef struct rt_option {
  uint32_t size;
  uint32_t reserved;
  const char* key;   /* name of the key, without its section */
  const char* value; /* true, false, a number or a text, as rt_option_spec.type says */
} rt_option;
#define RT_OPTION_SIZE_V1 24

#ifdef __cplusplus
}
#endif

#endif /* RT_COMMON_H_ */
