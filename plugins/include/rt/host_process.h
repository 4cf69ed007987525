/* What a plugin may ask about the process that it works in. A table of the host: a plugin gets it
 * with rt_host.get_interface, interface "rt.host.process", version 1. */
#ifndef RT_HOST_PROCESS_H_
#define RT_HOST_PROCESS_H_

#include "rt/common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Name and version for rt_host.get_interface. */
#define RT_HOST_INTERFACE_PROCESS "rt.host.process"
#define RT_HOST_PROCESS_API_VERSION 1

/* Every function may be called from any thread, does not wait, and takes rt_host.context. A slot is
 * NULL if the host cannot answer; check before each call. */
typedef struct rt_host_process_api {
  uint32_t size;
  uint32_t version; /* RT_HOST_PROCESS_API_VERSION */

  /* Returns the bytes of host memory that the process can still get: what the machine has free, and
   * what the limits of the process and of its control group leave. UINT64_MAX: unknown. Before it
   * allocates what a file asks for, a plugin compares and refuses with both numbers, because the
   * kernel kills a process that takes too much. */
  uint64_t (*available_memory)(void* context);

  /* Returns 1 once the user has asked the process to end (SIGTERM, for example), else 0. Work that
   * may take longer than about a second asks now and then; after a 1 it returns RT_ERROR_ABORTED.
   */
  int32_t (*stop_requested)(void* context);
} rt_host_process_api;
#define RT_HOST_PROCESS_API_SIZE_V1 24

#ifdef __cplusplus
}
#endif

#endif /* RT_HOST_PROCESS_H_ */
