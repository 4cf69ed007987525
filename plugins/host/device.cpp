// Calls the device and kernel tables, with every answer bounded and every wait noted.
#include "plugins/host/device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "plugins/host/call.h"
#include "plugins/host/error.h"
#include "plugins/host/limits.h"
#include "plugins/host/nearest.h"
#include "plugins/host/options.h"
#include "plugins/host/printable.h"
#include "plugins/host/release.h"
#include "rt/operations.h"

namespace plugins::host {
namespace {

// Returns a function that builds a text like "cpu:0: allocate 64 bytes"; it is called only after an
// error.
auto during(const Device& device, const char* what) {
  return [&device, what] { return device.id() + ": " + what; };
}

auto during(const Device& device, const char* what, uint64_t bytes) {
  return [&device, what, bytes] {
    return device.id() + ": " + what + " " + std::to_string(bytes) + " bytes";
  };
}

// The same for a wait; names what the device may be at.
auto during_wait(const Device& device, const char* what, const Place& place) {
  return [&device, what, &place] {
    const std::string last = place.last ? " (launched last: " + *place.last + ")" : "";
    return device.id() + ": " + what + last;
  };
}

template <typename T>
T* require_result(T* result, const std::string& what) {
  if (result == nullptr) throw Error(RT_ERROR_INTERNAL, what + ": answered RT_OK without a result");
  return result;
}

int32_t count_devices(const Plugin& plugin) {
  int32_t count = 0;
  const auto what = [&] { return plugin.name() + ": count devices"; };
  call(what, [&](rt_error* e) { return plugin.device_api()->count(plugin.self(), &count, e); });
  check_count(count, kMaxDevices, what());
  return count;
}

rt_device_properties properties_of(const Plugin& plugin, int32_t index) {
  rt_device_properties properties{};
  properties.size = sizeof(properties);
  const auto what = [&] { return plugin.name() + ":" + std::to_string(index) + ": properties"; };
  call(what, [&](rt_error* e) {
    return plugin.device_api()->properties(plugin.self(), index, &properties, e);
  });
  check_properties(properties, what());
  return properties;
}

// beyond_minor_version() for `matmul`.
std::string beyond_products(const Operation& matmul) {
  const char* const since =
      " since minor version 1 of the contract; the plugin was compiled against 0";
  if (matmul.outputs.size() > 1) return "matmul may have a second output" + std::string(since);
  const bool typed = !matmul.outputs.empty() && !matmul.inputs.empty();
  if (typed && matmul.outputs[0].dtype != matmul.inputs[0].dtype)
    return "matmul may have a result of another type" + std::string(since);
  return {};
}

// Why a plugin of an earlier minor version is not asked for the operation, whose attributes or
// operands it would take for a mistake; empty if it knows them.
std::string beyond_minor_version(const Plugin& plugin, const Operation& operation) {
  if (plugin.minor() > 0) return {};
  if (operation.name == RT_OP_MATMUL) return beyond_products(operation);
  if (operation.name != RT_OP_ACTIVATION) return {};
  for (const Attribute& a : operation.attributes) {
    const int64_t* function = std::get_if<int64_t>(&a.value);
    if (a.name != RT_ATTR_FUNCTION || !function || *function <= RT_ACTIVATION_SIGMOID) continue;
    return "activation has function " + std::to_string(*function) +
           " since minor version 1 of the contract; the plugin was compiled against 0";
  }
  return {};
}

bool stores(const Operation& operation) {
  return std::any_of(operation.post_ops.begin(), operation.post_ops.end(),
                     [](const PostOp& post_op) { return post_op.kind == RT_POST_STORE; });
}

// The operation with only the post-operations in front of the first one that stores, which plugins
// of minor version 0 do not know, and without what the others store and read.
Operation without_stores(Operation operation) {
  while (stores(operation)) {
    if (operation.post_ops.back().operand >= 0) operation.inputs.pop_back();
    if (operation.post_ops.back().kind == RT_POST_STORE) operation.outputs.pop_back();
    operation.post_ops.pop_back();
  }
  return operation;
}

// "cpu:0, cpu:1"
std::string existing(const Plugin& plugin, int32_t count) {
  std::vector<std::string> ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back(plugin.name() + ":" + std::to_string(i));
  return join_names(ids);
}

void check_index(const Plugin& plugin, int32_t index) {
  if (plugin.device_api() == nullptr) {
    throw Error(RT_ERROR_UNAVAILABLE, "plugin '" + plugin.name() + "' offers no devices");
  }
  const int32_t count = count_devices(plugin);
  if (index >= 0 && index < count) return;
  throw Error(RT_ERROR_UNAVAILABLE, "there is no device " + plugin.name() + ":" +
                                        std::to_string(index) +
                                        "; these exist: " + existing(plugin, count));
}

void check_usable(const std::string& id, const rt_device_properties& properties) {
  if (properties.flags & RT_DEVICE_USABLE) return;
  throw Error(RT_ERROR_UNAVAILABLE,
              "device " + id + " cannot be used: " + properties.unusable_reason);
}

rt_device* open_device(const Plugin& plugin, const std::string& id, int32_t index,
                       const DeviceOptions& options) {
  const COptions list(options.options);
  rt_device_options c{};
  c.size = sizeof(c);
  c.threads = options.threads;
  c.options = list.data();
  c.option_count = list.size();
  rt_device* device = nullptr;
  call(
      [&] { return id + ": open"; },
      [&](rt_error* e) { return plugin.device_api()->open(plugin.self(), index, &c, &device, e); });
  return require_result(device, id + ": open");
}

const rt_kernel_api& kernels_of(const Device& device) {
  const rt_kernel_api* api = device.plugin().kernel_api();
  if (api == nullptr) {
    throw Error(RT_ERROR_UNSUPPORTED,
                device.id() + ": plugin '" + device.plugin().name() + "' offers no kernels");
  }
  return *api;
}

}  // namespace

Memory::Memory(std::shared_ptr<Device> device, uint64_t bytes, int32_t kind)
    : device_(std::move(device)), bytes_(bytes), kind_(kind) {
  if (bytes > device_->largest_buffer()) {
    throw Error(RT_ERROR_OUT_OF_MEMORY, device_->id() + ": allocate " + std::to_string(bytes) +
                                            " bytes: one buffer of this device has at most " +
                                            std::to_string(device_->largest_buffer()));
  }
  call(during(*device_, "allocate", bytes), [&](rt_error* e) {
    return device_->plugin().device_api()->allocate(device_->get(), bytes, kind, &address_, e);
  });
  require_result(address_, device_->id() + ": allocate");
}

Memory::Memory(Memory&& other) noexcept { *this = std::move(other); }

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  std::swap(kind_, other.kind_);
  return *this;
}

Memory::~Memory() {
  if (address_ == nullptr) return;
  const Plugin& plugin = device_->plugin();
  call_release(plugin, "free", [&] { plugin.device_api()->free(device_->get(), address_, kind_); });
}

Stream::Stream(std::shared_ptr<Device> device) : device_(std::move(device)) {
  call(during(*device_, "create a stream"), [&](rt_error* e) {
    return device_->plugin().device_api()->stream_create(device_->get(), &stream_, e);
  });
  require_result(stream_, device_->id() + ": create a stream");
  place_.stream = std::make_shared<const std::string>(device_->id() + " stream " +
                                                      std::to_string(device_->streams_++));
}

Stream::Stream(Stream&& other) noexcept { *this = std::move(other); }

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(stream_, other.stream_);
  std::swap(place_, other.place_);
  std::swap(launches_, other.launches_);
  return *this;
}

Stream::~Stream() {
  if (stream_ == nullptr) return;
  const Plugin& plugin = device_->plugin();
  const InCall waiting(*device_->calls(), place_);
  call_release(plugin, "stream_destroy", [&] { plugin.device_api()->stream_destroy(stream_); });
}

void Stream::copy(void* destination, const void* source, uint64_t bytes) {
  const InCall waiting(*device_->calls(), place_);
  call(during(*device_, "copy", bytes), [&](rt_error* e) {
    return device_->plugin().device_api()->copy(stream_, destination, source, bytes, e);
  });
}

void Stream::fill(void* destination, int value, uint64_t bytes) {
  call(during(*device_, "fill", bytes), [&](rt_error* e) {
    return device_->plugin().device_api()->fill(stream_, destination, value, bytes, e);
  });
}

void Stream::launched(const std::shared_ptr<const std::string>& label) {
  launches_ = true;
  place_.last = label;
}

void Stream::waits_for(const Place& place) {
  if (!launches_) place_.last = place.last;
}

void Stream::synchronize() {
  const InCall waiting(*device_->calls(), place_);
  call(during_wait(*device_, "synchronize a stream", place_),
       [&](rt_error* e) { return device_->plugin().device_api()->stream_synchronize(stream_, e); });
}

Event::Event(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const rt_device_api& api = *device_->plugin().device_api();
  rt_event* event = nullptr;
  call(during(*device_, "create an event"),
       [&](rt_error* e) { return api.event_create(device_->get(), &event, e); });
  require_result(event, device_->id() + ": create an event");
  event_ = {event, {device_, "event_destroy", api.event_destroy}};
}

void Event::record(Stream& stream) {
  call(during(*device_, "record an event"), [&](rt_error* e) {
    return device_->plugin().device_api()->event_record(event_.get(), stream.get(), e);
  });
  place_ = stream.place();
}

void Event::wait(Stream& stream) {
  call(during(*device_, "make a stream wait for an event"), [&](rt_error* e) {
    return device_->plugin().device_api()->event_wait(event_.get(), stream.get(), e);
  });
  stream.waits_for(place_);
}

void Event::synchronize() {
  const InCall waiting(*device_->calls(), place_);
  call(during_wait(*device_, "wait for an event", place_), [&](rt_error* e) {
    return device_->plugin().device_api()->event_synchronize(event_.get(), e);
  });
}

bool Event::query() {
  return call_ready(during_wait(*device_, "query an event", place_), [&](rt_error* e) {
    return device_->plugin().device_api()->event_query(event_.get(), e);
  });
}

std::chrono::nanoseconds Event::elapsed(Event& begin, Event& end) {
  int64_t nanoseconds = 0;
  call(during(*begin.device_, "time between two events"), [&](rt_error* e) {
    return begin.device_->plugin().device_api()->event_elapsed(begin.event_.get(), end.event_.get(),
                                                               &nanoseconds, e);
  });
  return std::chrono::nanoseconds(nanoseconds);
}

Kernel::Kernel(std::shared_ptr<Device> device, const Operation& operation)
    : device_(std::move(device)) {
  const rt_kernel_api& api = kernels_of(*device_);
  const OperationView view(operation, device_->plugin().minor());
  const auto what = [&] { return device_->id() + ": create a plan for " + operation.name; };
  if (!operation.label.empty()) label_ = std::make_shared<const std::string>(operation.label);
  rt_plan* plan = nullptr;
  call(what, [&](rt_error* e) { return api.create(device_->get(), view.get(), &plan, e); });
  require_result(plan, what());
  plan_ = {plan, {device_, "destroy", api.destroy}};
  info_.size = sizeof(info_);
  call(what, [&](rt_error* e) { return api.info(plan, &info_, e); });
  check_plan(info_, operation, what());
  work_ = checked_work(info_, what());
  info_.work = nullptr;  // the checked copy is work_
}

void Kernel::launch(Stream& stream, const rt_launch& launch) {
  stream.launched(label_);
  const InCall waiting(*device_->calls(), stream.place());
  call([&] { return device_->id() + ": launch " + info_.implementation; },
       [&](rt_error* e) {
         return device_->plugin().kernel_api()->launch(plan_.get(), stream.get(), &launch, e);
       });
}

std::vector<DeviceInfo> list_devices(const Plugin& plugin,
                                     const std::function<void(const char*)>& begin) {
  std::vector<DeviceInfo> devices;
  if (plugin.device_api() == nullptr) return devices;
  if (begin) begin("its devices were counted");
  const int32_t count = count_devices(plugin);
  for (int32_t i = 0; i < count; ++i) {
    if (begin) begin(("the properties of device " + std::to_string(i) + " were read").c_str());
    devices.push_back({plugin.name(), i, properties_of(plugin, i)});
  }
  return devices;
}

std::shared_ptr<Device> Device::open(std::shared_ptr<Plugin> plugin, int32_t index,
                                     const DeviceOptions& options) {
  check_index(*plugin, index);
  const std::string fault =
      fault_of(options.options, plugin->options(), "device." + plugin->name());
  if (!fault.empty()) throw Error(RT_ERROR_INVALID_ARGUMENT, fault);
  std::shared_ptr<Device> device(new Device(std::move(plugin), index));
  device->properties_ = properties_of(*device->plugin_, index);
  check_usable(device->id_, device->properties_);
  device->options_ = options;
  device->device_ = open_device(*device->plugin_, device->id_, index, options);
  return device;
}

Device::Device(std::shared_ptr<Plugin> plugin, int32_t index)
    : plugin_(std::move(plugin)), id_(plugin_->name() + ":" + std::to_string(index)) {}

Device::~Device() {
  if (device_ == nullptr) return;
  call_release(*plugin_, "close", [&] { plugin_->device_api()->close(device_); });
}

Memory Device::allocate(uint64_t bytes, int32_t kind) {
  return Memory(shared_from_this(), bytes, kind);
}
Stream Device::create_stream() { return Stream(shared_from_this()); }
Event Device::create_event() { return Event(shared_from_this()); }

rt_memory_info Device::memory_info() {
  rt_memory_info info{};
  info.size = sizeof(info);
  call(during(*this, "memory information"),
       [&](rt_error* e) { return plugin_->device_api()->memory_info(device_, &info, e); });
  return info;
}

rt_utilisation Device::utilisation() {
  rt_utilisation utilisation{sizeof(rt_utilisation), -1, -1, -1, -1};
  if (plugin_->device_api()->utilisation == nullptr) return utilisation;
  call(during(*this, "utilisation"),
       [&](rt_error* e) { return plugin_->device_api()->utilisation(device_, &utilisation, e); });
  return utilisation;
}

Support Device::query(const Operation& operation) {
  const rt_kernel_api& api = kernels_of(*this);
  if (plugin_->minor() == 0 && stores(operation)) return query(without_stores(operation));
  const OperationView view(operation, plugin_->minor());
  const auto what = [&] { return id_ + ": query " + operation.name; };
  Support support;
  support.reason = beyond_minor_version(*plugin_, operation);
  if (!support.reason.empty()) return support;
  rt_support c{};
  // One query is usually enough; a backend with more candidates is queried a second time.
  support.candidates.resize(8);
  for (int pass = 0; pass < 2; ++pass) {
    for (rt_candidate& candidate : support.candidates) {
      candidate = {};
      candidate.size = sizeof(candidate);
    }
    c = {};
    c.size = sizeof(c);
    c.reason_operand = -1;
    c.candidates = support.candidates.data();
    c.candidate_capacity = static_cast<uint32_t>(support.candidates.size());
    call(what, [&](rt_error* e) { return api.query(device_, view.get(), &c, e); });
    if (c.candidate_count <= c.candidate_capacity) break;
    if (pass == 0) support.candidates.resize(std::min(c.candidate_count, kMaxCandidates));
  }
  support.candidates.resize(std::min(c.candidate_count, c.candidate_capacity));
  for (rt_candidate& candidate : support.candidates) check_candidate(candidate, operation, what());
  check_count(c.level, RT_SUPPORT_NATIVE, what() + ": level");
  check_count(c.post_ops_fused, static_cast<int64_t>(operation.post_ops.size()),
              what() + ": post_ops_fused");
  make_printable(c.reason);
  support.level = c.level;
  support.post_ops_fused = c.post_ops_fused;
  support.deterministic = c.deterministic != 0;
  support.tolerance = c.tolerance;
  support.reason_operand = c.reason_operand;
  support.reason = c.reason;
  return support;
}

Kernel Device::create_kernel(const Operation& operation) {
  return Kernel(shared_from_this(), operation);
}

uint64_t Device::layout_bytes(const rt_tensor_desc& tensor) {
  uint64_t bytes = 0;
  const rt_kernel_api& api = kernels_of(*this);
  call(during(*this, "bytes of a layout"),
       [&](rt_error* e) { return api.layout_bytes(device_, &tensor, &bytes, e); });
  check_bytes(bytes, id_ + ": bytes of a layout");
  return bytes;
}

std::string Device::layout_name(const rt_tensor_desc& tensor) {
  char name[128] = {};
  const rt_kernel_api& api = kernels_of(*this);
  call(during(*this, "name of a layout"),
       [&](rt_error* e) { return api.layout_name(device_, &tensor, name, sizeof(name), e); });
  make_printable(name);
  return name;
}

}  // namespace plugins::host
