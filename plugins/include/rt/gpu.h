/* An extension for devices that run CUDA or HIP: what a communicator plugin may know of them. The
 * rt_device of the plugins `cuda` and `rocm` begins with an rt_gpu_device, their rt_stream with an
 * rt_gpu_stream; both belong to the plugin that made them. */
#ifndef RT_GPU_H_
#define RT_GPU_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rt_gpu_device {
  int32_t index; /* for cudaSetDevice, hipSetDevice */
  int32_t reserved;
} rt_gpu_device;

typedef struct rt_gpu_stream {
  void* native; /* cudaStream_t, hipStream_t */
} rt_gpu_stream;

#ifdef __cplusplus
}
#endif

#endif /* RT_GPU_H_ */
