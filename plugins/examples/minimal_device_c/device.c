/* The device table: one inline device in host memory. Work on a stream runs before the call
 * returns, so synchronisation has nothing to wait for, and an event only holds a time. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "example.h"

/* Bytes in front of each allocation that hold its size, so that `free` can subtract it from the
 * number of allocated bytes. A whole alignment unit, so that the allocation stays aligned. */
#define HEADER EXAMPLE_ALIGNMENT
#define DEFAULT_LIMIT (UINT64_C(4096) << 20)

static rt_status count(void* self, int32_t* result, rt_error* error) {
  (void)self;
  (void)error;
  *result = 1;
  return RT_OK;
}

static rt_status properties(void* self, int32_t index, rt_device_properties* result,
                            rt_error* error) {
  (void)self;
  if (index != 0) {
    return example_fail(error, RT_ERROR_INVALID_ARGUMENT, "device %d does not exist, only 0",
                        index);
  }
  const rt_status status =
      example_check_size(result, RT_DEVICE_PROPERTIES_SIZE_V1, "rt_device_properties", error);
  if (status != RT_OK) return status;
  rt_device_properties value = {
      .flags = RT_DEVICE_USABLE | RT_DEVICE_INLINE | RT_DEVICE_HOST_MEMORY,
      .name = "example device, 1 thread",
      .stable_id = "example-0",
      .memory_bytes = DEFAULT_LIMIT,
      .storage_dtypes = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_INT32),
      .compute_dtypes = RT_DTYPE_BIT(RT_FLOAT32),
      .alignment = EXAMPLE_ALIGNMENT,
      .priority = 0, /* device.backend = "auto" takes it last; see plugins/README.md */
      .threads = 1,
  };
  example_write_output(result, &value, sizeof(value));
  return RT_OK;
}

static rt_status read_option(const rt_option* option, rt_device* device, rt_error* error) {
  const rt_status status =
      example_check_input(option, RT_OPTION_SIZE_V1, sizeof(*option), "rt_option", error);
  if (status != RT_OK) return status;
  if (strcmp(option->key, "memory_mib") != 0) {
    return example_fail(error, RT_ERROR_INVALID_ARGUMENT, "unknown option '%s'", option->key);
  }
  char* end = NULL;
  errno = 0;
  const long long mib = strtoll(option->value, &end, 10);
  if (errno != 0 || end == option->value || *end != '\0' || mib < 1 || mib > (1 << 20)) {
    return example_fail(error, RT_ERROR_INVALID_ARGUMENT,
                        "memory_mib is '%s'; expected a number from 1 to %d", option->value,
                        1 << 20);
  }
  device->limit_bytes = (uint64_t)mib << 20;
  return RT_OK;
}

static rt_status open_device(void* self, int32_t index, const rt_device_options* options,
                             rt_device** result, rt_error* error) {
  (void)self;
  if (index != 0) {
    return example_fail(error, RT_ERROR_INVALID_ARGUMENT, "device %d does not exist, only 0",
                        index);
  }
  rt_status status = example_check_input(options, RT_DEVICE_OPTIONS_SIZE_V1, sizeof(*options),
                                         "rt_device_options", error);
  if (status != RT_OK) return status;
  rt_device* device = calloc(1, sizeof(*device));
  if (device == NULL) return example_fail(error, RT_ERROR_OUT_OF_MEMORY, "out of host memory");
  device->limit_bytes = DEFAULT_LIMIT;
  for (uint32_t i = 0; i < options->option_count && status == RT_OK; ++i) {
    status = read_option(options->options[i], device, error);
  }
  if (status != RT_OK) {
    free(device);
    return status;
  }
  *result = device;
  return RT_OK;
}

static void close_device(rt_device* device) { free(device); }

static rt_status out_of_memory(uint64_t bytes, uint64_t used, uint64_t limit, rt_error* error) {
  return example_fail(error, RT_ERROR_OUT_OF_MEMORY,
                      "%" PRIu64 " bytes asked for, %" PRIu64 " of %" PRIu64 " free", bytes,
                      limit - (used < limit ? used : limit), limit);
}

static rt_status allocate(rt_device* device, uint64_t bytes, int32_t kind, void** address,
                          rt_error* error) {
  if (kind != RT_MEMORY_DEVICE && kind != RT_MEMORY_PINNED_HOST) {
    return example_fail(error, RT_ERROR_INVALID_ARGUMENT, "memory kind %d; expected 0 or 1", kind);
  }
  if (bytes == 0) {
    return example_fail(error, RT_ERROR_INVALID_ARGUMENT, "0 bytes asked for; expected > 0");
  }
  const uint64_t limit = device->limit_bytes;
  if (bytes > limit) {
    return out_of_memory(bytes, atomic_load(&device->allocated_bytes), limit, error);
  }
  const uint64_t before = atomic_fetch_add(&device->allocated_bytes, bytes);
  const uint64_t rounded = (bytes + EXAMPLE_ALIGNMENT - 1) / EXAMPLE_ALIGNMENT * EXAMPLE_ALIGNMENT;
  char* block = before + bytes > limit ? NULL : aligned_alloc(EXAMPLE_ALIGNMENT, HEADER + rounded);
  if (block == NULL) {
    atomic_fetch_sub(&device->allocated_bytes, bytes);
    return out_of_memory(bytes, before, limit, error);
  }
  memcpy(block, &bytes, sizeof(bytes));
  *address = block + HEADER;
  return RT_OK;
}

static void free_memory(rt_device* device, void* address, int32_t kind) {
  (void)kind;
  if (address == NULL) return;
  char* block = (char*)address - HEADER;
  uint64_t bytes;
  memcpy(&bytes, block, sizeof(bytes));
  atomic_fetch_sub(&device->allocated_bytes, bytes);
  free(block);
}

static rt_status stream_create(rt_device* device, rt_stream** result, rt_error* error) {
  rt_stream* stream = calloc(1, sizeof(*stream));
  if (stream == NULL) return example_fail(error, RT_ERROR_OUT_OF_MEMORY, "out of host memory");
  stream->device = device;
  *result = stream;
  return RT_OK;
}

static void stream_destroy(rt_stream* stream) { free(stream); }

static rt_status stream_synchronize(rt_stream* stream, rt_error* error) {
  (void)stream;
  (void)error;
  return RT_OK;
}

static rt_status copy(rt_stream* stream, void* destination, const void* source, uint64_t bytes,
                      rt_error* error) {
  (void)stream;
  (void)error;
  if (bytes > 0) memcpy(destination, source, bytes);
  return RT_OK;
}

static rt_status fill(rt_stream* stream, void* destination, int32_t value, uint64_t bytes,
                      rt_error* error) {
  (void)stream;
  if (value < 0 || value > 255) {
    return example_fail(error, RT_ERROR_INVALID_ARGUMENT, "byte value %d; expected 0..255", value);
  }
  if (bytes > 0) memset(destination, value, bytes);
  return RT_OK;
}

static rt_status event_create(rt_device* device, rt_event** result, rt_error* error) {
  (void)device;
  rt_event* event = calloc(1, sizeof(*event));
  if (event == NULL) return example_fail(error, RT_ERROR_OUT_OF_MEMORY, "out of host memory");
  *result = event;
  return RT_OK;
}

static void event_destroy(rt_event* event) { free(event); }

static rt_status event_record(rt_event* event, rt_stream* stream, rt_error* error) {
  (void)stream;
  struct timespec now;
  if (timespec_get(&now, TIME_UTC) == 0) {
    return example_fail(error, RT_ERROR_DEVICE, "the clock cannot be read");
  }
  event->time_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  return RT_OK;
}

static rt_status event_wait(rt_event* event, rt_stream* stream, rt_error* error) {
  (void)event;
  (void)stream;
  (void)error;
  return RT_OK;
}

static rt_status event_done(rt_event* event, rt_error* error) {
  (void)event;
  (void)error;
  return RT_OK;
}

static rt_status event_elapsed(rt_event* begin, rt_event* end, int64_t* nanoseconds,
                               rt_error* error) {
  if (begin->time_ns == 0 || end->time_ns == 0) {
    return example_fail(error, RT_ERROR_INVALID_ARGUMENT,
                        "an event was never recorded; record both first");
  }
  *nanoseconds = end->time_ns - begin->time_ns;
  return RT_OK;
}

static rt_status memory_info(rt_device* device, rt_memory_info* info, rt_error* error) {
  const rt_status status =
      example_check_size(info, RT_MEMORY_INFO_SIZE_V1, "rt_memory_info", error);
  if (status != RT_OK) return status;
  const uint64_t used = atomic_load(&device->allocated_bytes);
  rt_memory_info value = {
      .total_bytes = device->limit_bytes,
      .free_bytes = device->limit_bytes - (used < device->limit_bytes ? used : device->limit_bytes),
      .allocated_bytes = used,
  };
  example_write_output(info, &value, sizeof(value));
  return RT_OK;
}

const rt_device_api example_device_api = {
    .size = sizeof(rt_device_api),
    .version = RT_DEVICE_API_VERSION,
    .count = count,
    .properties = properties,
    .open = open_device,
    .close = close_device,
    .allocate = allocate,
    .free = free_memory,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = stream_synchronize,
    .copy = copy,
    .fill = fill,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_synchronize = event_done,
    .event_query = event_done,
    .event_elapsed = event_elapsed,
    .memory_info = memory_info,
    .utilisation = NULL, /* the only optional slot: the load is not known */
};
