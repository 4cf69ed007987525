/* The device table: enumeration, memory, copies, streams, events. Interface "rt.device", version 1.
 *
 * Threads: calls on different devices, streams or events may run concurrently. The host serializes
 * the calls on one stream. The host may call allocate, free and every function without a stream
 * argument from any thread at any time. */
#ifndef RT_DEVICE_H_
#define RT_DEVICE_H_

#include "rt/common.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RT_DEVICE_API_VERSION 1

/* Opaque objects that the plugin defines. */
typedef struct rt_device rt_device; /* an opened device; equivalent to: a CUcontext */
typedef struct rt_stream rt_stream; /* equivalent to: cudaStream_t */
typedef struct rt_event rt_event;   /* equivalent to: cudaEvent_t */

/* Kinds of memory. */
#define RT_MEMORY_DEVICE 0      /* memory that kernels read and write */
#define RT_MEMORY_PINNED_HOST 1 /* host memory that asynchronous copies can use */

/* rt_device_properties.flags */
#define RT_DEVICE_USABLE 0x1u /* if this flag is missing, `unusable_reason` says why */
#define RT_DEVICE_INLINE \
  0x2u /* work on a stream runs in the calling thread before the call returns */
#define RT_DEVICE_HOST_MEMORY 0x4u /* the host may read and write RT_MEMORY_DEVICE directly */
/* Every operation is computed as operations.md defines it, in the type asked for. The host compares
 * other devices with this one. */
#define RT_DEVICE_DEFINITION 0x8u

/* What a device is and can do. The host asks for it before it opens the device. */
typedef struct rt_device_properties {
  uint32_t size;
  uint32_t flags;            /* RT_DEVICE_* */
  char name[128];            /* name for people: "AMD EPYC, 2 threads" */
  char stable_id[64];        /* same after a reboot: PCI address, UUID; key of the tuning cache */
  char unusable_reason[256]; /* empty if the device is usable */
  uint64_t memory_bytes;     /* size of the device's memory */
  uint64_t storage_dtypes;   /* mask of RT_DTYPE_BIT: types that the device can store */
  uint64_t compute_dtypes;   /* mask of RT_DTYPE_BIT: types that its kernels compute in */
  uint64_t alignment; /* bytes, a power of two up to 2 MiB; the host aligns every buffer that it
                         passes to a kernel to this */
  /* Minor version 1: */
  int32_t priority; /* with device.backend = "auto" the host takes the usable device with the
                       highest priority; 0: unknown, taken last */
  int32_t threads;  /* host threads that its kernels use by default; 0: none or unknown */
  /* Minor version 2: */
  uint64_t largest_buffer; /* bytes; `allocate` gives at most so many in one call, of either kind of
                              memory, and the host asks for no more. 0: as many as are free.
                              Equivalent to: CL_DEVICE_MAX_MEM_ALLOC_SIZE. */
} rt_device_properties;
#define RT_DEVICE_PROPERTIES_SIZE_V1 488

/* How to open a device. Borrowed for the call. */
typedef struct rt_device_options {
  uint32_t size;
  int32_t threads; /* host threads that the device may use; 0: the plugin chooses */
  const rt_option* const*
      options; /* [device.<plugin>]; the host has refused unknown keys already */
  uint32_t option_count;
  uint32_t reserved;
} rt_device_options;
#define RT_DEVICE_OPTIONS_SIZE_V1 24

/* Sizes in bytes of the memory of a device. */
typedef struct rt_memory_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t total_bytes;     /* size of the memory */
  uint64_t free_bytes;      /* what nobody has allocated, as far as the device tells */
  uint64_t allocated_bytes; /* allocated through this rt_device and not freed yet */
} rt_memory_info;
#define RT_MEMORY_INFO_SIZE_V1 32

/* Load of the whole device, by all processes that use it. -1 means unknown. Equivalent to:
 * nvmlDeviceGetUtilizationRates, nvmlDeviceGetTemperature, nvmlDeviceGetPowerUsage. */
typedef struct rt_utilisation {
  uint32_t size;
  int32_t compute_percent;     /* 0..100: percentage of time in which at least one kernel ran */
  int32_t memory_percent;      /* 0..100: percentage of time in which memory was read or written */
  int32_t temperature_celsius; /* temperature of the chip */
  int64_t power_milliwatts;    /* power drawn by the board */
} rt_utilisation;
#define RT_UTILISATION_SIZE_V1 24

/* The functions of the interface. The plugin owns the table; only `utilisation` may be NULL. `self`
 * is rt_plugin.self. */
typedef struct rt_device_api {
  uint32_t size;
  uint32_t version; /* RT_DEVICE_API_VERSION */

  /* Returns the number of devices, usable or not, at most 1024. Indices are 0..count-1. A plugin
   * without devices returns 0 and RT_OK. Does not block. */
  rt_status (*count)(void* self, int32_t* count, rt_error* error);
  /* Fills the properties of a device, usable or not. The device need not be open. */
  rt_status (*properties)(void* self, int32_t index, rt_device_properties* properties,
                          rt_error* error);

  /* Opens a device. Two rt_device objects of the same index are independent. The host closes a
   * device with `close` after it has destroyed everything that was made from it. */
  rt_status (*open)(void* self, int32_t index, const rt_device_options* options, rt_device** device,
                    rt_error* error);
  /* Closes a device and frees it. */
  void (*close)(rt_device* device);

  /* Allocates `bytes` > 0 bytes of uninitialised memory, aligned to properties.alignment. Since
   * minor version 2 `bytes` is at most properties.largest_buffer, if that is not 0. The host
   * returns it with `free` and the same kind. On RT_ERROR_OUT_OF_MEMORY the message names the
   * requested and the free size. May block. Equivalent to: cudaMalloc, cudaMallocHost. */
  rt_status (*allocate)(rt_device* device, uint64_t bytes, int32_t memory_kind, void** address,
                        rt_error* error);
  /* Frees memory of `allocate`, with the kind that it was allocated with. */
  void (*free)(rt_device* device, void* address, int32_t memory_kind);

  /* Makes a stream, which runs its work in the order in which the work was queued. Equivalent to:
   * cudaStreamCreate. */
  rt_status (*stream_create)(rt_device* device, rt_stream** stream, rt_error* error);
  /* Waits for the work of a stream, then frees it. Equivalent to: cudaStreamDestroy. */
  void (*stream_destroy)(rt_stream* stream);
  /* Blocks until all work queued so far has run, and returns the first error of that work. The
   * plugin may skip work behind a failed one until then. Equivalent to: cudaStreamSynchronize. */
  rt_status (*stream_synchronize)(rt_stream* stream, rt_error* error);

  /* Queues a copy between any two of: memory of this device, pinned host memory, pageable host
   * memory. The caller may reuse a pageable source as soon as the call returns; a pageable
   * destination holds the data only after a synchronisation. The ranges must not overlap.
   * Equivalent to: cudaMemcpyAsync with cudaMemcpyDefault. */
  rt_status (*copy)(rt_stream* stream, void* destination, const void* source, uint64_t bytes,
                    rt_error* error);
  /* Queues work that sets every byte to `value` (0..255). Equivalent to: cudaMemsetAsync. */
  rt_status (*fill)(rt_stream* stream, void* destination, int32_t value, uint64_t bytes,
                    rt_error* error);

  /* Makes an event, which counts as complete until it is recorded. Equivalent to:
   * cudaEventCreate. */
  rt_status (*event_create)(rt_device* device, rt_event** event, rt_error* error);
  /* Frees an event. Streams that wait for it wait all the same. Equivalent to: cudaEventDestroy. */
  void (*event_destroy)(rt_event* event);
  /* The event completes when all work queued on the stream so far has run, has failed or is
   * skipped. Recording an event again replaces its earlier record. Equivalent to: cudaEventRecord.
   */
  rt_status (*event_record)(rt_event* event, rt_stream* stream, rt_error* error);
  /* Work queued on `stream` after this call waits for the event's latest record. The call itself
   * does not wait. Since minor version 2 an error that the event reports is one of `stream`, too.
   * Equivalent to: cudaStreamWaitEvent. */
  rt_status (*event_wait)(rt_event* event, rt_stream* stream, rt_error* error);
  /* Blocks the calling thread until the event has completed. An event that was never recorded
   * counts as complete. Since minor version 2 the function returns the first error of the work
   * before the latest record that no stream_synchronize had returned when it was recorded, each
   * time that it is called; earlier plugins may return RT_OK. Equivalent to: cudaEventSynchronize.
   */
  rt_status (*event_synchronize)(rt_event* event, rt_error* error);
  /* Returns RT_NOT_READY until the event has completed, then what event_synchronize returns. Does
   * not block. Equivalent to: cudaEventQuery. */
  rt_status (*event_query)(rt_event* event, rt_error* error);
  /* Returns the time between two completed records. Equivalent to: cudaEventElapsedTime. */
  rt_status (*event_elapsed)(rt_event* begin, rt_event* end, int64_t* nanoseconds, rt_error* error);

  /* Fills the sizes of the device's memory. Equivalent to: cudaMemGetInfo. */
  rt_status (*memory_info)(rt_device* device, rt_memory_info* info, rt_error* error);
  /* Fills the load of the device; the slot is NULL if the plugin cannot tell. */
  rt_status (*utilisation)(rt_device* device, rt_utilisation* utilisation, rt_error* error);
} rt_device_api;
#define RT_DEVICE_API_SIZE_V1 168

#ifdef __cplusplus
}
#endif

#endif /* RT_DEVICE_H_ */
