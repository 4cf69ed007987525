/* The device table: enumerate, memory, copies, streams, events. Interface "rt.device", version 1.
 *
 * Thread rule: functions on different devices, streams or events may be called concurrently. The
 * host serializes calls on one stream. allocate/free and everything without a stream argument may
 * be called from any thread at any time.
 */
#ifndef RT_DEVICE_H_
#define RT_DEVICE_H_

#include "rt/common.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RT_DEVICE_API_VERSION 1

typedef struct rt_device rt_device;
typedef struct rt_stream rt_stream;
typedef struct rt_event rt_event;

/* Memory kinds. */
#define RT_MEMORY_DEVICE 0      /* what kernels read and write */
#define RT_MEMORY_PINNED_HOST 1 /* host memory that asynchronous copies can use */

/* rt_device_properties.flags */
#define RT_DEVICE_USABLE 0x1u /* else `unusable_reason` says why not */
#define RT_DEVICE_INLINE \
  0x2u /* work on a stream runs in the calling thread before the call returns */
#define RT_DEVICE_HOST_MEMORY 0x4u /* the host may read and write RT_MEMORY_DEVICE directly */

typedef struct rt_device_properties {
  uint32_t size;
  uint32_t flags;
  char name[128];     /* "AMD EPYC, 2 threads" */
  char stable_id[64]; /* the same after a reboot: PCI address, uuid; key of the tuning cache */
  char unusable_reason[256]; /* empty if usable */
  uint64_t memory_bytes;
  uint64_t storage_dtypes; /* mask of RT_DTYPE_BIT: types that it can hold */
  uint64_t compute_dtypes; /* mask: types that its kernels compute in */
  uint64_t alignment; /* bytes, a power of two up to 2 MiB; every buffer that the host passes to a
                         kernel is aligned to this */
} rt_device_properties;

typedef struct rt_device_options {
  uint32_t size;
  int32_t threads; /* host threads that the device may use; 0: the device decides */
  const rt_option* const*
      options; /* [device.<plugin>]; unknown keys were refused by the host already */
  uint32_t option_count;
  uint32_t reserved;
} rt_device_options;

typedef struct rt_memory_info {
  uint32_t size;
  uint32_t reserved;
  uint64_t total_bytes;
  uint64_t free_bytes;
  uint64_t allocated_bytes; /* by this opened device */
} rt_memory_info;

/* Of the whole device, whoever uses it. -1: unknown. */
typedef struct rt_utilisation {
  uint32_t size;
  int32_t compute_percent;     /* 0..100: of the time, how much some kernel ran */
  int32_t memory_percent;      /* 0..100: of the time, how much memory was read or written */
  int32_t temperature_celsius; /* of the chip */
  int64_t power_milliwatts;    /* of the board */
} rt_utilisation;

typedef struct rt_device_api {
  uint32_t size;
  uint32_t version; /* RT_DEVICE_API_VERSION */

  /* Number of devices, usable or not, at most 1024; indices are 0..count-1. Zero is no error. Does
   * not block. */
  rt_status (*count)(void* self, int32_t* count, rt_error* error);
  rt_status (*properties)(void* self, int32_t index, rt_device_properties* properties,
                          rt_error* error);

  /* Opens a device; several opens of one index are independent objects. Close after everything made
   * from it. */
  rt_status (*open)(void* self, int32_t index, const rt_device_options* options, rt_device** device,
                    rt_error* error);
  void (*close)(rt_device* device);

  /* `bytes` > 0. The memory is uninitialised, aligned to properties.alignment, and freed by `free`
   * with the same kind. RT_ERROR_OUT_OF_MEMORY names the size asked for and the size free. May
   * block. */
  rt_status (*allocate)(rt_device* device, uint64_t bytes, int32_t memory_kind, void** address,
                        rt_error* error);
  void (*free)(rt_device* device, void* address, int32_t memory_kind);

  /* A stream runs its work in order. Destroy waits for the work on it. */
  rt_status (*stream_create)(rt_device* device, rt_stream** stream, rt_error* error);
  void (*stream_destroy)(rt_stream* stream);
  /* Waits until all work queued so far has run; reports the first error of that work. */
  rt_status (*stream_synchronize)(rt_stream* stream, rt_error* error);

  /* Copies between any two of: memory of this device, pinned host memory, pageable host memory (a
   * pageable source may be reused when the call returns; a pageable destination holds the data
   * after a synchronisation). Ranges do not overlap. */
  rt_status (*copy)(rt_stream* stream, void* destination, const void* source, uint64_t bytes,
                    rt_error* error);
  /* Sets every byte to `value` (0..255). */
  rt_status (*fill)(rt_stream* stream, void* destination, int32_t value, uint64_t bytes,
                    rt_error* error);

  rt_status (*event_create)(rt_device* device, rt_event** event, rt_error* error);
  void (*event_destroy)(rt_event* event);
  /* The event completes when the work queued on the stream so far has; recording again re-arms it.
   */
  rt_status (*event_record)(rt_event* event, rt_stream* stream, rt_error* error);
  /* Work queued on `stream` after this call waits for the event's latest record; the caller does
   * not wait. */
  rt_status (*event_wait)(rt_event* event, rt_stream* stream, rt_error* error);
  /* The calling thread waits. An event never recorded counts as complete. */
  rt_status (*event_synchronize)(rt_event* event, rt_error* error);
  /* RT_OK or RT_NOT_READY. */
  rt_status (*event_query)(rt_event* event, rt_error* error);
  /* Time between two completed records. */
  rt_status (*event_elapsed)(rt_event* begin, rt_event* end, int64_t* nanoseconds, rt_error* error);

  rt_status (*memory_info)(rt_device* device, rt_memory_info* info, rt_error* error);
  rt_status (*utilisation)(rt_device* device, rt_utilisation* utilisation, rt_error* error);
} rt_device_api;

#ifdef __cplusplus
}
#endif

#endif /* RT_DEVICE_H_ */
