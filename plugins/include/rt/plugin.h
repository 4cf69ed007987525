/* How host and plugin meet: the one exported symbol, version negotiation, what the host offers. */
#ifndef RT_PLUGIN_H_
#define RT_PLUGIN_H_

#include "rt/common.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RT_LOG_DEBUG 0
#define RT_LOG_INFO 1
#define RT_LOG_WARNING 2
#define RT_LOG_ERROR 3

/* What the host gives the plugin; valid until rt_plugin.shutdown has returned. Every function may
 * be called from any thread and copies what it is given. A slot may be NULL: then the host does not
 * offer it. */
typedef struct rt_host {
  uint32_t size;
  uint32_t reserved;
  void* context; /* first argument of every function below */

  /* Never blocks for long. `component` names the part of the plugin that speaks. */
  void (*log)(void* context, int32_t level, const char* component, const char* text);

  /* Key-value store shared by the ranks of the job, for rendezvous. Keys are unique within the job.
   * `kv_get` waits until the key exists or the deadline has passed (RT_ERROR_TIMEOUT); `*bytes` is
   * the capacity of `value` on entry and the size of the stored value on return,
   * RT_ERROR_INVALID_ARGUMENT if that is larger than the capacity. */
  rt_status (*kv_set)(void* context, const char* key, const void* value, uint64_t bytes,
                      rt_error* error);
  rt_status (*kv_get)(void* context, const char* key, void* value, uint64_t* bytes,
                      int64_t timeout_ns, rt_error* error);

  /* A span of the host's trace, on the calling thread; spans nest. */
  void (*span_begin)(void* context, const char* name);
  void (*span_end)(void* context);
} rt_host;

/* Version negotiation. The host fills the range that it speaks; the plugin writes the major that it
 * speaks, also when it refuses, so that the host's message can name both. */
typedef struct rt_negotiation {
  uint32_t size;
  uint32_t host_major_min;
  uint32_t host_major_max;
  uint32_t plugin_major; /* out */
} rt_negotiation;

/* A key of [device.<plugin>] (or of the communicator's section) that the plugin understands. */
#define RT_OPTION_BOOLEAN 1
#define RT_OPTION_INTEGER 2
#define RT_OPTION_NUMBER 3
#define RT_OPTION_STRING 4
typedef struct rt_option_spec {
  uint32_t size;
  int32_t type; /* RT_OPTION_* */
  const char* key;
  const char* default_value; /* as text */
  const char* description;
} rt_option_spec;

/* Interface names for rt_plugin.get_interface. Each table is versioned on its own. */
#define RT_INTERFACE_DEVICE "rt.device"
#define RT_INTERFACE_KERNEL "rt.kernel"
#define RT_INTERFACE_COMMUNICATOR "rt.communicator"

/* One loaded instance of a plugin. Everything in it, and every table it answers with, lives until
 * `shutdown`. */
typedef struct rt_plugin {
  uint32_t size;
  uint32_t reserved;
  void* self;       /* the plugin's own state; first argument where a function takes `self` */
  const char* name; /* [a-z][a-z0-9_]*, what the configuration says: device.backend = "<name>" */
  const char* vendor;
  const char* version; /* of the plugin, free text */
  const char*
      build_id; /* changes whenever kernels or layouts may; part of the key of the tuning cache */
  const char* description; /* one line for `runtime plugins list` */

  /* A table, or NULL if the plugin does not offer this name in this version. Extensions have
   * reverse-DNS names. */
  const void* (*get_interface)(void* self, const char* name, uint32_t version);

  /* The keys that the plugin understands; sets *count, returns an array of pointers (NULL if none).
   */
  const rt_option_spec* const* (*options)(void* self, uint32_t* count);

  /* Frees the instance. Called once, after every object made from it was destroyed. Waits for the
   * plugin's threads. */
  void (*shutdown)(void* self);
} rt_plugin;

/* The one symbol that a plugin exports. Makes one instance; may be called several times in a
 * process, also from several threads (ranks), and in another process that only looks at the plugin
 * and ends without shutdown. Must not exit, abort or throw. On refusal returns
 * RT_ERROR_VERSION and writes both versions into the error's message. */
typedef rt_status (*rt_plugin_entry_fn)(const rt_host* host, rt_negotiation* negotiation,
                                        const rt_plugin** plugin, rt_error* error);
#define RT_PLUGIN_ENTRY_SYMBOL "rt_plugin_entry"

#if defined(__GNUC__)
#define RT_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define RT_PLUGIN_EXPORT
#endif

RT_PLUGIN_EXPORT rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                           const rt_plugin** plugin, rt_error* error);

#ifdef __cplusplus
}
#endif

#endif /* RT_PLUGIN_H_ */
