/* Optional table of a device plugin: the vendor's own handles behind its objects, for plugins of
 * others that work with the same vendor's library, as communicators do. Interface "rt.native",
 * version 1. The host passes a communicator the table of the plugin that owns its device
 * (rt_comm_options.native).
 *
 * Every handle belongs to the device plugin and is valid as long as the object that it was asked
 * of; whoever uses it neither frees nor keeps it. Threads: any thread, also at the same time as
 * other calls for the same object. No function waits or allocates. */
#ifndef RT_NATIVE_H_
#define RT_NATIVE_H_

#include "rt/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Name and version for rt_plugin.get_interface. */
#define RT_INTERFACE_NATIVE "rt.native"
#define RT_NATIVE_API_VERSION 1

/* rt_native_handle.kind: which library's handles these are. Others have a name in reverse-DNS
 * form. */
#define RT_NATIVE_CUDA "cuda"     /* the CUDA runtime */
#define RT_NATIVE_HIP "hip"       /* the HIP runtime */
#define RT_NATIVE_OPENCL "opencl" /* OpenCL */

/* A handle. The caller sets `size`; the plugin fills the other fields.
 *
 * | kind   | of        | index                               | handle           | context    |
 * |--------|-----------|-------------------------------------|------------------|------------|
 * | cuda   | rt_device | argument of cudaSetDevice           | NULL             | NULL       |
 * |        | rt_stream | that of its device                  | cudaStream_t     | NULL       |
 * |        | rt_event  | that of its device                  | cudaEvent_t      | NULL       |
 * | hip    | as cuda, with hipSetDevice, hipStream_t and hipEvent_t                            |
 * | opencl | rt_device | -1                                  | cl_device_id     | cl_context |
 * |        | rt_stream | -1                                  | cl_command_queue | cl_context |
 * |        | rt_event  | -1                                  | cl_event         | cl_context | */
typedef struct rt_native_handle {
  uint32_t size;
  int32_t index; /* as the table above says, like the members below */
  char kind[32]; /* RT_NATIVE_* */
  void* handle;
  void* context;
} rt_native_handle;
#define RT_NATIVE_HANDLE_SIZE_V1 56

/* The functions of the interface. The plugin owns the table; no slot may be NULL. */
typedef struct rt_native_api {
  uint32_t size;
  uint32_t version; /* RT_NATIVE_API_VERSION */

  /* Fills the handle of a device of this plugin. RT_ERROR_UNSUPPORTED: this one has none. */
  rt_status (*device)(rt_device* device, rt_native_handle* handle, rt_error* error);
  /* The same for a stream. */
  rt_status (*stream)(rt_stream* stream, rt_native_handle* handle, rt_error* error);
  /* The same for an event. */
  rt_status (*event)(rt_event* event, rt_native_handle* handle, rt_error* error);
} rt_native_api;
#define RT_NATIVE_API_SIZE_V1 32

#ifdef __cplusplus
}
#endif

#endif /* RT_NATIVE_H_ */
