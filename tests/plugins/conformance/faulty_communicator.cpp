// The plugin `local` with one fault, which an environment variable names when the plugin is loaded.
#include "rt/plugin.h"  // declares the entry by its name

#define rt_plugin_entry faultless_plugin_entry
#include "collectives/local/plugin.cpp"
#undef rt_plugin_entry

#include <cstdlib>
#include <string>

#include "rt/sdk/operation.h"

namespace {

using namespace collectives::local;
using rt::sdk::guard;
using rt::sdk::object_of;

std::string fault;
rt_communicator_api api = kApi;
const void* (*faultless_get_interface)(void*, const char*, uint32_t) = nullptr;

void spoil(rt_collective& call, int32_t size) {
  if (fault == "short" && call.kind == RT_ALL_REDUCE && call.count > 1) --call.count;
  if (fault == "sum_for_average" && call.reduction == RT_AVERAGE) call.reduction = RT_SUM;
  if (fault == "min_for_max" && call.reduction == RT_MAX) call.reduction = RT_MIN;
  if (fault == "unsigned" && call.dtype == RT_INT8) call.dtype = RT_UINT8;
  if (fault == "root_0" && call.kind == RT_BROADCAST && call.send == nullptr) call.peer = 0;
  if (fault == "any_reduction" && call.reduction > RT_MAX) call.reduction = RT_SUM;
  if (fault == "any_peer" && call.kind == RT_REDUCE && call.peer >= size) call.kind = RT_BARRIER;
}

// Completes at once, without doing the collective.
Work& pretend(rt_collective call) {
  static Group alone(1);
  call.kind = RT_BARRIER;
  return alone.enter(0, call);
}

rt_status faulty_enqueue(rt_communicator* communicator, const rt_collective* call, rt_work** work,
                         rt_error* error) {
  return guard(error, [&] {
    auto& rank = object_of<Rank>(communicator);
    rt_collective spoiled = *call;
    spoil(spoiled, rank.group().size());
    check_call(spoiled, rank.rank(), rank.group().size());
    const bool skipped = (fault == "no_barrier" && call->kind == RT_BARRIER) ||
                         (fault == "no_receive" && call->kind == RT_RECEIVE);
    Work& started = skipped ? pretend(spoiled) : rank.group().enter(rank.rank(), spoiled);
    *work = reinterpret_cast<rt_work*>(&started);
    if (fault == "overrun" && call->receive != nullptr && call->kind == RT_ALL_REDUCE) {
      const uint64_t bytes = call->count * rt::sdk::dtype_bytes(call->dtype);
      static_cast<char*>(call->receive)[bytes] = 0;
    }
  });
}

rt_status faulty_split(rt_communicator* parent, int32_t color, int32_t, int64_t timeout_ns,
                       rt_communicator** result, rt_error* error) {
  return kApi.split(parent, color, 0, timeout_ns, result, error);  // ignores the key
}

rt_status faulty_abort(rt_communicator*, rt_error*) { return RT_OK; }

const void* get_faulty_interface(void* self, const char* name, uint32_t version) {
  return faultless_get_interface(self, name, version) == nullptr ? nullptr : &api;
}

}  // namespace

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  const char* name = std::getenv("RUNTIME_TEST_FAULT");
  fault = name != nullptr ? name : "";
  api.enqueue = faulty_enqueue;
  if (fault == "no_key") api.split = faulty_split;
  if (fault == "no_abort") api.abort = faulty_abort;
  const rt_status status = faultless_plugin_entry(host, negotiation, plugin, error);
  if (status != RT_OK) return status;
  auto& view = *const_cast<rt_plugin*>(*plugin);
  faultless_get_interface = view.get_interface;
  view.get_interface = get_faulty_interface;
  return status;
}
