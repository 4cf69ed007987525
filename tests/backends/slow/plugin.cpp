// The plugin `slow` wraps another plugin, whose kernels then take twice as long.
#include "rt/plugin.h"

#include <dlfcn.h>

#include <cstdint>
#include <ctime>
#include <map>
#include <mutex>
#include <string_view>

#include "rt/kernel.h"
#include "rt/sdk/error.h"

namespace {

struct Instance {
  const rt_plugin* inner = nullptr;
  rt_plugin outer{};
};

struct Shared {
  std::mutex mutex;
  std::map<void*, Instance> instances;  // by `self`, the pointer of the inner plugin
  rt_kernel_api kernels{};
  const rt_kernel_api* slowed_kernels = nullptr;
};

Shared& shared() {
  static Shared instance;
  return instance;
}

const rt_plugin& slowed(void* self) {
  const std::lock_guard lock(shared().mutex);
  return *shared().instances.at(self).inner;
}

// The processor time of the calling thread, in nanoseconds; work of other processes does not count.
int64_t processor_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

// The thread spins, because sleeping would also lose the contents of the caches and the clock rate.
rt_status launch(rt_plan* plan, rt_stream* stream, const rt_launch* launch, rt_error* error) {
  const int64_t begin = processor_ns();
  const rt_status status = shared().slowed_kernels->launch(plan, stream, launch, error);
  const int64_t end = processor_ns();
  while (processor_ns() - end < end - begin) {
  }
  return status;
}

const void* get_interface(void* self, const char* name, uint32_t version) {
  const void* table = slowed(self).get_interface(self, name, version);
  if (table == nullptr || std::string_view(name) != RT_INTERFACE_KERNEL) return table;
  const std::lock_guard lock(shared().mutex);
  shared().slowed_kernels = static_cast<const rt_kernel_api*>(table);
  shared().kernels = *shared().slowed_kernels;
  shared().kernels.launch = launch;
  return &shared().kernels;
}

void shutdown(void* self) {
  const rt_plugin& plugin = slowed(self);
  {
    const std::lock_guard lock(shared().mutex);
    shared().instances.erase(self);
  }
  plugin.shutdown(self);
}

rt_plugin_entry_fn entry_of_slowed() {
  void* library = dlopen(SLOWED_PLUGIN, RTLD_NOW | RTLD_LOCAL);  // never closed
  void* symbol = library == nullptr ? nullptr : dlsym(library, RT_PLUGIN_ENTRY_SYMBOL);
  if (symbol != nullptr) return reinterpret_cast<rt_plugin_entry_fn>(symbol);
  throw rt::sdk::Error(RT_ERROR_UNAVAILABLE, dlerror());
}

}  // namespace

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  rt_status status = RT_OK;
  const rt_status guarded = rt::sdk::guard(error, [&] {
    const rt_plugin* inner = nullptr;
    status = entry_of_slowed()(host, negotiation, &inner, error);
    if (status != RT_OK) return;
    const std::lock_guard lock(shared().mutex);
    Instance& instance = shared().instances[inner->self];
    instance.inner = inner;
    instance.outer = *inner;
    instance.outer.name = "slow";
    instance.outer.description = "another backend at half its speed, for tests";
    instance.outer.get_interface = get_interface;
    instance.outer.shutdown = shutdown;
    *plugin = &instance.outer;
  });
  return guarded == RT_OK ? status : guarded;
}
