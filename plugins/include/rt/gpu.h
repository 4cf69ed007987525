/* What communicators of minor version 0 know of devices that run CUDA or HIP: an rt_device of the
 * plugins `cuda` and `rocm` begins with an rt_gpu_device, and their rt_stream begins with an
 * rt_gpu_stream. Both structs belong to the plugin that made them. They cannot grow, and nothing
 * tells one library's from another's: since minor version 1, use rt/native.h, and these only with a
 * device plugin that does not offer it. */
#ifndef RT_GPU_H_
#define RT_GPU_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rt_gpu_device { /* the beginning of an rt_device */
  int32_t index;               /* argument of cudaSetDevice or hipSetDevice */
  int32_t reserved;
} rt_gpu_device;

typedef struct rt_gpu_stream { /* the beginning of an rt_stream */
  void* native;                /* a cudaStream_t or hipStream_t */
} rt_gpu_stream;

#ifdef __cplusplus
}
#endif

#endif /* RT_GPU_H_ */
