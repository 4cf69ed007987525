/* What a kernel of a plan costs; see rt_plan_info.work of rt/kernel.h. */
#ifndef RT_KERNEL_WORK_H_
#define RT_KERNEL_WORK_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel that one launch of a plan queues on the device, and what it costs at least. */
typedef struct rt_kernel_work {
  uint32_t size;
  uint32_t reserved;
  /* Bytes that the kernel reads from and writes to device memory. What it reads again while a cache
   * still holds it does not count; a second pass over a tensor does. */
  double bytes;
  double flops;  /* floating-point operations of products (matrices, convolutions, attention) */
  char name[48]; /* what profilers call the kernel, or a name for people */
} rt_kernel_work;
#define RT_KERNEL_WORK_SIZE_V1 72

#ifdef __cplusplus
}
#endif

#endif /* RT_KERNEL_WORK_H_ */
