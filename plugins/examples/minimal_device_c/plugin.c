/* The entry: version negotiation, the instance, its tables and options. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "example.h"

rt_status example_fail(rt_error* error, rt_status code, const char* pattern, ...) {
  if (error == NULL || error->size < RT_ERROR_SIZE_V1) return code;
  error->code = code;
  error->scope = RT_SCOPE_OPERATION;
  error->native_code = 0;
  error->native_domain[0] = '\0';
  va_list arguments;
  va_start(arguments, pattern);
  vsnprintf(error->message, sizeof(error->message), pattern, arguments);
  va_end(arguments);
  return code;
}

static uint32_t size_of(const void* sized) {
  uint32_t size;
  memcpy(&size, sized, sizeof(size));
  return size;
}

rt_status example_check_size(const void* given, size_t least, const char* what, rt_error* error) {
  if (given != NULL && size_of(given) >= least) return RT_OK;
  return example_fail(error, RT_ERROR_INVALID_ARGUMENT,
                      "%s is missing or has %u bytes; expected at least %zu", what,
                      given == NULL ? 0 : size_of(given), least);
}

rt_status example_check_input(const void* input, size_t least, size_t known, const char* what,
                              rt_error* error) {
  const rt_status status = example_check_size(input, least, what, error);
  if (status != RT_OK) return status;
  const uint32_t size = size_of(input);
  for (size_t i = known; i < size; ++i) {
    if (((const unsigned char*)input)[i] != 0) {
      return example_fail(error, RT_ERROR_TOO_NEW,
                          "%s has %u bytes and uses what lies behind the %zu bytes of version "
                          "%d.%d of the contract, which this plugin was built for; use a newer "
                          "plugin",
                          what, size, known, RT_ABI_MAJOR, RT_ABI_MINOR);
    }
  }
  return RT_OK;
}

void example_copy_input(void* copy, const void* input, size_t known) {
  const size_t size = size_of(input);
  memset(copy, 0, known);
  memcpy(copy, input, size < known ? size : known);
}

void example_write_output(void* output, const void* value, size_t known) {
  const uint32_t size = size_of(output);
  const size_t bytes = size < known ? size : known;
  if (bytes <= sizeof(size)) return;
  memcpy((char*)output + sizeof(size), (const char*)value + sizeof(size), bytes - sizeof(size));
}

static const void* get_interface(void* self, const char* name, uint32_t version) {
  (void)self;
  if (strcmp(name, RT_INTERFACE_DEVICE) == 0 && version == RT_DEVICE_API_VERSION) {
    return &example_device_api;
  }
  if (strcmp(name, RT_INTERFACE_KERNEL) == 0 && version == RT_KERNEL_API_VERSION) {
    return &example_kernel_api;
  }
  return NULL;
}

static const rt_option_spec kMemory = {
    .size = sizeof(rt_option_spec),
    .type = RT_OPTION_INTEGER,
    .key = "memory_mib",
    .default_value = "4096",
    .description = "how much memory the device pretends to have, in MiB",
};
static const rt_option_spec* const kOptions[] = {&kMemory};

static const rt_option_spec* const* options(void* self, uint32_t* count) {
  (void)self;
  *count = sizeof(kOptions) / sizeof(kOptions[0]);
  return kOptions;
}

static void shutdown(void* self) { free(self); }

RT_PLUGIN_EXPORT rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                           const rt_plugin** plugin, rt_error* error) {
  rt_status status =
      example_check_size(negotiation, RT_NEGOTIATION_SIZE_V1, "rt_negotiation", error);
  if (status != RT_OK) return status;
  negotiation->plugin_major = RT_ABI_MAJOR;
  /* Hosts of the first release do not have the field. */
  if (negotiation->size >= offsetof(rt_negotiation, plugin_minor) + sizeof(uint32_t)) {
    negotiation->plugin_minor = RT_ABI_MINOR;
  }
  if (RT_ABI_MAJOR < negotiation->host_major_min || RT_ABI_MAJOR > negotiation->host_major_max) {
    return example_fail(error, RT_ERROR_VERSION,
                        "this plugin speaks version %d of the contract, the host %u to %u",
                        RT_ABI_MAJOR, negotiation->host_major_min, negotiation->host_major_max);
  }
  example_plugin* self = calloc(1, sizeof(*self));
  if (self == NULL) return example_fail(error, RT_ERROR_OUT_OF_MEMORY, "out of host memory");
  self->host = host;
  self->view = (rt_plugin){
      .size = sizeof(rt_plugin),
      .self = self,
      .name = "example",
      .vendor = "the runtime's examples",
      .version = "1.0.0",
      .build_id = "example-1.0.0",
      .description = "the smallest complete device: C11, float32, the mandatory operations",
      .get_interface = get_interface,
      .options = options,
      .shutdown = shutdown,
  };
  *plugin = &self->view;
  return RT_OK;
}
