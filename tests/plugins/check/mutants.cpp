// A device that is broken in one way, which the environment variable RUNTIME_MUTANT names: the
// simulated accelerator with one function of its tables replaced. `runtime plugins check` has to
// find every one of these faults.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rt/capture.h"
#include "rt/kernel.h"
#include "rt/native.h"
#include "rt/operations.h"
#include "rt/plugin.h"

// The entry of the simulated accelerator, which is compiled into this library under another name.
extern "C" rt_status simulated_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error);

namespace {

// The tables of the good device, and those in which one function is replaced. A mutant is one
// process-wide fault, so that these may be global.
const rt_device_api* good_device = nullptr;
const rt_kernel_api* good_kernel = nullptr;
const rt_capture_api* good_capture = nullptr;
rt_device_api device;
rt_kernel_api kernel;
rt_capture_api capture;
const rt_plugin* good_plugin = nullptr;
std::deque<rt_plugin> instances;  // with the functions of this file
std::string mutant;

bool is(std::string_view name) { return mutant == name; }

rt_status fail(rt_error* error, rt_status code, const char* message) {
  if (error != nullptr) {
    error->code = code;
    std::strncpy(error->message, message, sizeof(error->message) - 1);
  }
  return code;
}

// Handles, which the good device does not tell: the objects themselves.

rt_status tell(rt_native_handle* result, void* handle, rt_error* error) {
  if (result->size < RT_NATIVE_HANDLE_SIZE_V1 && !is("fills_short_handles"))
    return fail(error, RT_ERROR_INVALID_ARGUMENT, "the handle is too short");
  rt_native_handle made{};
  made.size = result->size;
  made.index = -1;
  std::strcpy(made.kind, is("tells_no_kind") ? "" : "org.example.simulated");
  made.handle = is("tells_one_handle") ? nullptr : handle;
  static std::atomic<int> calls{0};
  if (is("tells_others_each_time")) made.index = calls++;
  std::memcpy(result, &made, std::min<size_t>(result->size, sizeof(made)));
  return RT_OK;
}

rt_status native_device(rt_device* of, rt_native_handle* result, rt_error* error) {
  return tell(result, of, error);
}
rt_status native_stream(rt_stream* of, rt_native_handle* result, rt_error* error) {
  return tell(result, of, error);
}
rt_status native_event(rt_event* of, rt_native_handle* result, rt_error* error) {
  return tell(result, of, error);
}
const rt_native_api kNative = {sizeof(rt_native_api), RT_NATIVE_API_VERSION, native_device,
                               native_stream, native_event};

// The entry and the instance.

const void* get_interface(void* self, const char* name, uint32_t version) {
  if (is("answers_any_interface") && good_plugin->get_interface(self, name, 1) == nullptr)
    return &device;
  const std::string_view wanted = name;
  if (wanted == RT_INTERFACE_NATIVE && version == RT_NATIVE_API_VERSION) return &kNative;
  const uint32_t asked = is("answers_any_version") ? 1 : version;
  const void* const good = good_plugin->get_interface(self, name, asked);
  if (good == nullptr) return nullptr;
  if (wanted == RT_INTERFACE_DEVICE) return &device;
  if (wanted == RT_INTERFACE_KERNEL) return &kernel;
  if (wanted == RT_INTERFACE_CAPTURE) return &capture;
  return good;
}

const rt_option_spec* const* options(void* self, uint32_t* count) {
  static const rt_option_spec wrong = {sizeof(rt_option_spec), RT_OPTION_INTEGER, "depth", "deep",
                                       "a default that is no number"};
  static const rt_option_spec* const list[] = {&wrong};
  if (!is("has_a_wrong_default")) return good_plugin->options(self, count);
  *count = 1;
  return list;
}

// Devices.

rt_status count(void* self, int32_t* result, rt_error* error) {
  static std::atomic<int> calls{0};
  const rt_status status = good_device->count(self, result, error);
  if (is("counts_other_devices")) *result += calls++ % 2;
  return status;
}

rt_status properties(void* self, int32_t index, rt_device_properties* result, rt_error* error) {
  if (is("takes_the_first_device")) index = 0;
  rt_device_properties whole{};
  whole.size = sizeof(whole);
  const bool longer = is("writes_whole_properties") && result->size < sizeof(whole);
  const rt_status status = good_device->properties(self, index, longer ? &whole : result, error);
  if (longer) std::memcpy(result, &whole, sizeof(whole));
  if (status == RT_OK && is("cannot_be_used")) {
    result->flags &= ~RT_DEVICE_USABLE;
    std::strcpy(result->unusable_reason, "no driver");
  }
  if (status == RT_OK && is("calls_all_devices_the_same"))
    std::strncpy(result->stable_id, "simulated", sizeof(result->stable_id));
  if (status == RT_OK && is("promises_large_buffers")) result->largest_buffer = 64 << 20;
  return status;
}

rt_status open(void* self, int32_t index, const rt_device_options* given, rt_device** result,
               rt_error* error) {
  if (is("takes_the_first_device")) index = 0;
  rt_device_options none{};
  none.size = sizeof(none);
  if (is("ignores_options")) given = &none;
  rt_device_options cut;
  if (is("ignores_unknown_tails") && given->size > sizeof(cut)) {
    cut = *given;
    cut.size = sizeof(cut);
    given = &cut;
  }
  if (is("writes_no_message")) {
    rt_error lost{};
    lost.size = sizeof(lost);
    return good_device->open(self, index, given, result, &lost);
  }
  if (is("needs_an_error")) error->message[0] = '\0';
  return good_device->open(self, index, given, result, error);
}

// Memory and streams.

// A copy from pageable memory, which is done once more when the host waits for the stream.
struct Late {
  void* destination;
  const void* source;
  uint64_t bytes;
};
std::mutex late_mutex;
std::map<rt_stream*, std::vector<Late>> late;
std::map<uintptr_t, uint64_t> allocated;  // guarded by late_mutex, too

bool is_allocated(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto after = allocated.upper_bound(at);
  return after != allocated.begin() && at < std::prev(after)->first + std::prev(after)->second;
}

rt_status allocate(rt_device* on, uint64_t bytes, int32_t kind, void** address, rt_error* error) {
  if (is("overcommits") && bytes > (uint64_t{1} << 34)) bytes = 4096;
  if (is("refuses_with_another_code") && bytes > (uint64_t{1} << 34))
    return fail(error, RT_ERROR_DEVICE, "no 17179869184 bytes");
  if (is("promises_large_buffers") && bytes > 32 << 20)
    return fail(error, RT_ERROR_OUT_OF_MEMORY, "no more than 33554432 bytes");
  const bool shifted = is("aligns_to_eight");
  const rt_status status =
      good_device->allocate(on, shifted ? bytes + 8 : bytes, kind, address, error);
  if (status == RT_OK && shifted) *address = static_cast<char*>(*address) + 8;
  const std::lock_guard lock(late_mutex);
  if (status == RT_OK) allocated[reinterpret_cast<uintptr_t>(*address)] = bytes;
  return status;
}

void free_memory(rt_device* on, void* address, int32_t kind) {
  {
    const std::lock_guard lock(late_mutex);
    allocated.erase(reinterpret_cast<uintptr_t>(address));
  }
  if (is("never_frees")) return;
  good_device->free(on, is("aligns_to_eight") ? static_cast<char*>(address) - 8 : address, kind);
}

rt_status memory_info(rt_device* on, rt_memory_info* info, rt_error* error) {
  const rt_status status = good_device->memory_info(on, info, error);
  if (is("counts_no_bytes")) info->allocated_bytes = 0;
  if (is("has_more_free_than_total")) info->free_bytes = 2 * info->total_bytes;
  return status;
}

rt_status synchronize(rt_stream* stream, rt_error* error) {
  if (is("does_not_synchronize")) return RT_OK;
  std::vector<Late> mine;
  {
    const std::lock_guard lock(late_mutex);
    mine.swap(late[stream]);
  }
  for (const Late& copy : mine)
    if (is_allocated(copy.destination))
      good_device->copy(stream, copy.destination, copy.source, copy.bytes, error);
  return good_device->stream_synchronize(stream, error);
}

rt_status copy(rt_stream* stream, void* destination, const void* source, uint64_t bytes,
               rt_error* error) {
  if (is("reads_pageable_late")) {
    const std::lock_guard lock(late_mutex);
    if (!is_allocated(source) && is_allocated(destination))
      late[stream].push_back({destination, source, bytes});
  }
  if (is("drops_the_last_odd_byte") && bytes % 2 == 1) --bytes;
  if (is("copies_words") && bytes > 8) {
    const uint64_t shift = reinterpret_cast<uintptr_t>(destination) % 4;
    destination = static_cast<char*>(destination) - shift;
    source = static_cast<const char*>(source) - shift;
  }
  const rt_status status = good_device->copy(stream, destination, source, bytes, error);
  if (is("waits_in_copy") && status == RT_OK) return good_device->stream_synchronize(stream, error);
  return status;
}

rt_status fill(rt_stream* stream, void* destination, int32_t value, uint64_t bytes,
               rt_error* error) {
  if (is("fills_seven_bits")) value &= 0x7F;
  return good_device->fill(stream, destination, value, bytes, error);
}

// Events.

rt_status record(rt_event* event, rt_stream* stream, rt_error* error) {
  static std::mutex mutex;
  static std::set<rt_event*> recorded;
  if (is("records_once")) {
    const std::lock_guard lock(mutex);
    if (!recorded.insert(event).second) return RT_OK;
  }
  return good_device->event_record(event, stream, error);
}

rt_status wait(rt_event* event, rt_stream* stream, rt_error* error) {
  if (is("waits_for_no_event")) return RT_OK;
  if (is("waits_in_the_call")) return good_device->event_synchronize(event, error);
  return good_device->event_wait(event, stream, error);
}

rt_status event_synchronize(rt_event* event, rt_error* error) {
  return is("does_not_synchronize_events") ? RT_OK : good_device->event_synchronize(event, error);
}

rt_status query_event(rt_event* event, rt_error* error) {
  if (is("is_always_complete")) return RT_OK;
  if (is("is_never_complete")) return RT_NOT_READY;
  return good_device->event_query(event, error);
}

rt_status elapsed(rt_event* begin, rt_event* end, int64_t* nanoseconds, rt_error* error) {
  const rt_status status = good_device->event_elapsed(begin, end, nanoseconds, error);
  if (is("measures_no_time")) *nanoseconds = 0;
  if (is("measures_microseconds")) *nanoseconds /= 1000;
  return status;
}

// Kernels.

rt_status query(rt_device* on, const rt_op_desc* op, rt_support* support, rt_error* error) {
  rt_op_desc cut;
  if (is("ignores_tails_of_operations") && op->size > sizeof(cut)) {
    cut = *op;
    cut.size = sizeof(cut);
    op = &cut;
  }
  if (is("exits")) std::exit(0);
  if (is("aborts")) std::abort();
  if (is("hangs"))
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  if (is("throws")) throw std::string("not a status");
  const uint32_t room = support->candidate_capacity;
  if (is("writes_too_many_candidates") && room == 1) {
    auto* const second = reinterpret_cast<char*>(support->candidates) + support->candidates->size;
    std::memset(second, 1, 8);
  }
  const rt_status status = good_kernel->query(on, op, support, error);
  if (status != RT_OK) return status;
  if (is("accepts_everything")) support->level = RT_SUPPORT_NATIVE;
  if (is("refuses_without_a_reason") && std::string_view(op->name) == RT_OP_SOFTMAX) {
    support->level = RT_SUPPORT_REFUSED;
    support->reason[0] = '\0';
  }
  if (is("fuses_what_nobody_asked_for")) support->post_ops_fused = op->post_op_count + 1;
  if (is("claims_any_tolerance")) support->tolerance = 0.5;
  return status;
}

rt_status info(const rt_plan* plan, rt_plan_info* result, rt_error* error) {
  const rt_status status = good_kernel->info(plan, result, error);
  if (status == RT_OK && is("claims_every_in_place_pair"))
    for (uint32_t& pairs : result->in_place) pairs = 1;
  return status;
}

rt_status layout_bytes(rt_device* on, const rt_tensor_desc* tensor, uint64_t* bytes,
                       rt_error* error) {
  const rt_status status = good_kernel->layout_bytes(on, tensor, bytes, error);
  if (status == RT_OK && is("needs_fewer_bytes")) *bytes /= 2;
  return status;
}

// Operands of a launch are kept in the plan's own memory for a while, as if a kernel used it.
std::atomic<const rt_launch*> shared{nullptr};

rt_status launch(rt_plan* plan, rt_stream* stream, const rt_launch* given, rt_error* error) {
  if (is("shares_the_operands")) {
    shared = given;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    given = shared;
  }
  rt_launch fewer = *given;
  if (is("checks_no_launch") && given->input_count == 0) return RT_OK;
  if (is("leaks_in_launch")) {
    static std::vector<void*> leaked;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    leaked.push_back(std::malloc(100));
  }
  if (is("forgets_to_launch")) return RT_OK;
  if (is("launches_on_a_short_struct") && given->size < RT_LAUNCH_SIZE_V1) {
    fewer.size = RT_LAUNCH_SIZE_V1;
    return good_kernel->launch(plan, stream, &fewer, error);
  }
  return good_kernel->launch(plan, stream, given, error);
}

rt_status replay(rt_recording* recording, rt_stream* stream, rt_error* error) {
  return is("replays_nothing") ? RT_OK : good_capture->replay(recording, stream, error);
}

void replace_functions() {
  device = *good_device;
  device.count = count;
  device.properties = properties;
  device.open = open;
  device.allocate = allocate;
  device.free = free_memory;
  device.memory_info = memory_info;
  device.stream_synchronize = synchronize;
  device.copy = copy;
  device.fill = fill;
  device.event_record = record;
  device.event_wait = wait;
  device.event_synchronize = event_synchronize;
  device.event_query = query_event;
  device.event_elapsed = elapsed;
  kernel = *good_kernel;
  kernel.query = query;
  kernel.info = info;
  kernel.layout_bytes = layout_bytes;
  kernel.launch = launch;
  capture = *good_capture;
  capture.replay = replay;
}

}  // namespace

RT_PLUGIN_EXPORT rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                           const rt_plugin** result, rt_error* error) {
  const char* const named = std::getenv("RUNTIME_MUTANT");
  mutant = named == nullptr ? "" : named;
  if (is("speaks_every_version")) negotiation->host_major_max = RT_ABI_MAJOR;
  if (is("speaks_every_version")) negotiation->host_major_min = RT_ABI_MAJOR;
  if (is("writes_a_long_negotiation")) negotiation->plugin_minor = RT_ABI_MINOR;
  const rt_plugin* made = nullptr;
  const rt_status status = simulated_entry(host, negotiation, &made, error);
  if (status != RT_OK) return status;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  good_plugin = made;
  good_device =
      static_cast<const rt_device_api*>(made->get_interface(made->self, RT_INTERFACE_DEVICE, 1));
  good_kernel =
      static_cast<const rt_kernel_api*>(made->get_interface(made->self, RT_INTERFACE_KERNEL, 1));
  good_capture =
      static_cast<const rt_capture_api*>(made->get_interface(made->self, RT_INTERFACE_CAPTURE, 1));
  replace_functions();
  instances.push_back(*made);
  instances.back().get_interface = get_interface;
  instances.back().options = options;
  *result = &instances.back();
  return RT_OK;
}
