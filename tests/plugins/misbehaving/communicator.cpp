// The communicator of plugins/examples, of which every function misbehaves when it is asked to.
#include "rt/communicator.h"

#include <cstring>
#include <deque>
#include <mutex>

#include "rt/plugin.h"
#include "tests/plugins/misbehaving/misbehave.h"

extern "C" rt_status template_entry(const rt_host* host, rt_negotiation* negotiation,
                                    const rt_plugin** plugin, rt_error* error);

namespace {

using misbehaving::good;

rt_communicator_api communicator;
std::deque<rt_plugin> instances;

void wrap_communicator() {
  MISBEHAVE(communicator, "communicator", properties);
  MISBEHAVE(communicator, "communicator", capabilities);
  MISBEHAVE(communicator, "communicator", create);
  MISBEHAVE(communicator, "communicator", split);
  MISBEHAVE(communicator, "communicator", destroy);
  MISBEHAVE(communicator, "communicator", group_begin);
  MISBEHAVE(communicator, "communicator", group_end);
  MISBEHAVE(communicator, "communicator", enqueue);
  MISBEHAVE(communicator, "communicator", work_poll);
  MISBEHAVE(communicator, "communicator", work_wait);
  MISBEHAVE(communicator, "communicator", work_destroy);
  MISBEHAVE(communicator, "communicator", abort);
  MISBEHAVE(communicator, "communicator", asynchronous_error);
}

const void* get_interface(void* self, const char* name, uint32_t version) {
  if (good<rt_plugin>->get_interface(self, name, version) == nullptr) return nullptr;
  return &communicator;
}

}  // namespace

RT_PLUGIN_EXPORT rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                           const rt_plugin** result, rt_error* error) {
  const rt_plugin* made = nullptr;
  const rt_status status = template_entry(host, negotiation, &made, error);
  if (status != RT_OK) return status;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  good<rt_plugin> = made;
  good<rt_communicator_api> = static_cast<const rt_communicator_api*>(
      made->get_interface(made->self, RT_INTERFACE_COMMUNICATOR, 1));
  communicator = *good<rt_communicator_api>;
  wrap_communicator();
  rt_plugin& plugin = instances.emplace_back(*made);
  plugin.get_interface = get_interface;
  *result = &plugin;
  return RT_OK;
}
