/* How host and plugin meet: the one exported symbol, the version negotiation, and the functions
 * that the host offers to the plugin. */
#ifndef RT_PLUGIN_H_
#define RT_PLUGIN_H_

#include "rt/common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Levels of rt_host.log. */
#define RT_LOG_DEBUG 0
#define RT_LOG_INFO 1
#define RT_LOG_WARNING 2
#define RT_LOG_ERROR 3

/* Functions that the host offers to a plugin. The struct is valid until rt_plugin.shutdown has
 * returned. Every function may be called from any thread and copies its arguments. A slot may be
 * NULL if the host does not offer the function; check before each call. */
typedef struct rt_host {
  uint32_t size;
  uint32_t reserved;
  void* context; /* first argument of every function below */

  /* Writes `text` to the log of the host. `component` names the part of the plugin that the message
   * is about. Does not block for long. */
  void (*log)(void* context, int32_t level, const char* component, const char* text);

  /* A key-value store that all ranks of the job share, for rendezvous only. Keys of different jobs
   * do not collide. `kv_set` stores a copy of the value; set a key only once. Equivalent to: set of
   * torch.distributed.Store. */
  rt_status (*kv_set)(void* context, const char* key, const void* value, uint64_t bytes,
                      rt_error* error);
  /* Waits until the key exists; returns RT_ERROR_TIMEOUT if that takes longer than `timeout_ns`. On
   * entry `*bytes` is the capacity of `value`, on return it is the size of the stored value. If
   * that size is larger than the capacity, the function writes no value and returns
   * RT_ERROR_INVALID_ARGUMENT. Equivalent to: get of torch.distributed.Store. */
  rt_status (*kv_get)(void* context, const char* key, void* value, uint64_t* bytes,
                      int64_t timeout_ns, rt_error* error);

  /* Begins a named interval of the calling thread in the host's trace. Intervals nest. Equivalent
   * to: nvtxRangePush. */
  void (*span_begin)(void* context, const char* name);
  /* Ends the interval that the calling thread has begun last. Equivalent to: nvtxRangePop. */
  void (*span_end)(void* context);

  /* Minor version 1: */
  /* Returns the table of further functions of that name and version, or NULL if this host does not
   * offer it. The first argument of the table's functions is `context` of this struct. The host
   * owns the table, which is valid as long as this struct. rt/host_process.h has a table. */
  const void* (*get_interface)(void* context, const char* name, uint32_t version);
} rt_host;
#define RT_HOST_SIZE_V1 56

/* Version negotiation. The host writes the range of major versions that it speaks. The plugin
 * always writes its own version, also when it refuses, so that the message of the host can name
 * both. */
typedef struct rt_negotiation {
  uint32_t size;
  uint32_t host_major_min; /* the lowest major version that the host speaks */
  uint32_t host_major_max; /* the highest one */
  uint32_t plugin_major;   /* out */
  /* Minor version 1: */
  uint32_t plugin_minor; /* out: RT_ABI_MINOR of the plugin; absent in plugins of minor version 0 */
} rt_negotiation;
#define RT_NEGOTIATION_SIZE_V1 16

/* A key of [device.<plugin>] (or of the communicator's section) that the plugin understands. The
 * host refuses keys that no rt_option_spec describes. */
#define RT_OPTION_BOOLEAN 1
#define RT_OPTION_INTEGER 2
#define RT_OPTION_NUMBER 3
#define RT_OPTION_STRING 4
typedef struct rt_option_spec {
  uint32_t size;
  int32_t type;              /* RT_OPTION_* */
  const char* key;           /* its name, without the section */
  const char* default_value; /* the default value, written as text */
  const char* description;   /* one sentence, shown by `runtime plugins info` */
} rt_option_spec;
#define RT_OPTION_SPEC_SIZE_V1 32

/* Names for rt_plugin.get_interface. Each table has its own version. */
#define RT_INTERFACE_DEVICE "rt.device"
#define RT_INTERFACE_KERNEL "rt.kernel"
#define RT_INTERFACE_COMMUNICATOR "rt.communicator"

/* One instance of a plugin. The struct and every table and string that it leads to stay valid until
 * `shutdown` is called. `build_id` must change whenever kernels or layouts may have changed,
 * because the tuning cache keeps its results under it. */
typedef struct rt_plugin {
  uint32_t size;
  uint32_t reserved;
  void* self;              /* the plugin's own state; the host passes it as `self` */
  const char* name;        /* [a-z][a-z0-9_]*; selected by device.backend = "<name>" */
  const char* vendor;      /* who makes the hardware or the library, free text */
  const char* version;     /* version of the plugin, free text */
  const char* build_id;    /* changes with kernels and layouts; key of the tuning cache */
  const char* description; /* one line, shown by `runtime plugins list` */

  /* Returns the table of that name and version, or NULL if the plugin does not offer it. Names of
   * extensions are in reverse-DNS form. The plugin owns the table. */
  const void* (*get_interface)(void* self, const char* name, uint32_t version);

  /* Returns an array of `*count` pointers to the keys that the plugin understands, or NULL if there
   * are none. The plugin owns the array. */
  const rt_option_spec* const* (*options)(void* self, uint32_t* count);

  /* Frees the instance; waits until the threads of the plugin have ended. The host calls it once,
   * after it has destroyed every object that was made from the instance. */
  void (*shutdown)(void* self);
} rt_plugin;
#define RT_PLUGIN_SIZE_V1 80

/* The type of the one symbol that a plugin exports. The function makes one instance and returns it
 * in `*plugin`. The host may call it several times in a process, also from several threads (ranks),
 * and in a separate process that only inspects the plugin and ends without calling shutdown. The
 * function must not exit, abort or throw. If host and plugin share no major version it returns
 * RT_ERROR_VERSION and names both versions in the error's message. */
typedef rt_status (*rt_plugin_entry_fn)(const rt_host* host, rt_negotiation* negotiation,
                                        const rt_plugin** plugin, rt_error* error);
/* The name under which the host looks the symbol up. */
#define RT_PLUGIN_ENTRY_SYMBOL "rt_plugin_entry"

/* Exports a symbol of a library that is compiled with -fvisibility=hidden. */
#if defined(__GNUC__)
#define RT_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define RT_PLUGIN_EXPORT
#endif

/* The entry that every plugin defines; see rt_plugin_entry_fn. */
RT_PLUGIN_EXPORT rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                           const rt_plugin** plugin, rt_error* error);

#ifdef __cplusplus
}
#endif

#endif /* RT_PLUGIN_H_ */
