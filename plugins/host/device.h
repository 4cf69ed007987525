// RAII handles over the device and kernel tables. Every function throws plugins::host::Error.
#ifndef PLUGINS_HOST_DEVICE_H_
#define PLUGINS_HOST_DEVICE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugins/host/in_call.h"
#include "plugins/host/kernel_work.h"
#include "plugins/host/operation.h"
#include "plugins/host/plugin.h"
#include "plugins/host/release.h"

namespace plugins::host {

class Device;

// Device memory or pinned host memory, uninitialised. Movable; the destructor frees it. Keeps its
// device open.
class Memory {
 public:
  Memory() = default;
  // Allocates `bytes` > 0 bytes of `kind` RT_MEMORY_*. Throws RT_ERROR_OUT_OF_MEMORY with sizes,
  // also if the device gives no buffer of that size.
  Memory(std::shared_ptr<Device> device, uint64_t bytes, int32_t kind);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();
  void* data() const { return address_; }
  uint64_t bytes() const { return bytes_; }
  explicit operator bool() const { return address_ != nullptr; }

 private:
  std::shared_ptr<Device> device_;
  void* address_ = nullptr;
  uint64_t bytes_ = 0;
  int32_t kind_ = RT_MEMORY_DEVICE;
};

// A queue that runs its work in order. The caller serializes the calls on one stream. Movable;
// keeps its device open. The destructor waits for queued work. Equivalent to: cudaStream_t.
class Stream {
 public:
  explicit Stream(std::shared_ptr<Device> device);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();
  void copy(void* destination, const void* source, uint64_t bytes);  // see rt_device_api.copy
  // Queues a fill with a byte value of 0..255. synchronize() blocks until all queued work has run.
  void fill(void* destination, int value, uint64_t bytes);
  void synchronize();
  rt_stream* get() const { return stream_; }
  const std::shared_ptr<Device>& device() const { return device_; }
  // Its name and what was launched on it last, for messages.
  const Place& place() const { return place_; }
  void launched(const std::shared_ptr<const std::string>& label);
  // Its work waits for that of another stream: without launches of its own it is named after that.
  void waits_for(const Place& place);

 private:
  std::shared_ptr<Device> device_;
  rt_stream* stream_ = nullptr;
  Place place_;
  bool launches_ = false;
};

// A point in the work of a stream. Movable; keeps its device open. synchronize() and query() throw
// the first error of the work before it if Device::events_report_errors(). Equivalent to:
// cudaEvent_t.
class Event {
 public:
  explicit Event(std::shared_ptr<Device> device);
  // Completes when all work queued on the stream so far has run. Recording again replaces this.
  void record(Stream& stream);
  void wait(Stream& stream);  // the stream waits, the caller does not
  void synchronize();         // blocks the caller
  bool query();               // whether the event has completed; does not block
  // The time between two completed records.
  static std::chrono::nanoseconds elapsed(Event& begin, Event& end);

 private:
  std::shared_ptr<Device> device_;
  Handle<Device, rt_event> event_;
  Place place_;  // of the stream, at the latest record
};

// A plan: one operation on fixed shapes, ready to run. Movable; keeps its device open. launch() may
// be called concurrently on different streams.
class Kernel {
 public:
  Kernel() = default;
  // Makes a plan; `operation` is used only during the call, except `operation.forward`.
  Kernel(std::shared_ptr<Device> device, const Operation& operation);
  const rt_plan_info& info() const { return info_; }
  // The kernels that one launch queues, in their order. Empty if the plugin does not tell.
  const std::vector<KernelWork>& work() const { return work_; }
  const rt_plan* get() const { return plan_.get(); }
  // Queues one run of the plan; allocates nothing. The host does not check `launch`, the plugin
  // does.
  void launch(Stream& stream, const rt_launch& launch);
  explicit operator bool() const { return plan_ != nullptr; }

 private:
  std::shared_ptr<Device> device_;
  Handle<Device, rt_plan> plan_;
  rt_plan_info info_{};
  std::vector<KernelWork> work_;
  std::shared_ptr<const std::string> label_;  // Operation::label
};

// The answer of Device::query; see rt_support.
struct Support {
  int32_t level = RT_SUPPORT_REFUSED;
  uint32_t post_ops_fused = 0;
  bool deterministic = false;
  double tolerance = 0;
  int32_t reason_operand = -1;
  std::string reason;
  std::vector<rt_candidate> candidates;
};

// A device that a plugin lists, usable or not.
struct DeviceInfo {
  std::string plugin;
  int32_t index = 0;
  rt_device_properties properties{};
  std::string id() const { return plugin + ":" + std::to_string(index); }  // "cuda:0"
  bool usable() const { return (properties.flags & RT_DEVICE_USABLE) != 0; }
};

// The devices of a plugin, usable or not; empty if the plugin has no device table. `begin`, if
// given, is called with the name of each step, as in Plugin::load.
std::vector<DeviceInfo> list_devices(const Plugin& plugin,
                                     const std::function<void(const char*)>& begin = nullptr);

struct DeviceOptions {
  int32_t threads = 0;                         // host threads; 0: the plugin chooses
  std::map<std::string, std::string> options;  // keys of [device.<plugin>]
};

// An opened device; keeps its plugin loaded. Thread-safe as rt/device.h says. Objects that it makes
// keep it open.
class Device : public std::enable_shared_from_this<Device> {
 public:
  // Throws Error for an index that does not exist, with the list of those that do, for an unusable
  // device, with its reason, and for an unknown option.
  static std::shared_ptr<Device> open(std::shared_ptr<Plugin> plugin, int32_t index,
                                      const DeviceOptions& options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& id() const { return id_; }  // "cpu:0"
  const Plugin& plugin() const { return *plugin_; }
  const rt_device_properties& properties() const { return properties_; }
  const DeviceOptions& options() const { return options_; }  // the options given to open()
  // Whether work runs in the calling thread, and whether the host may access device memory
  // directly.
  bool is_inline() const { return (properties_.flags & RT_DEVICE_INLINE) != 0; }
  bool host_memory() const { return (properties_.flags & RT_DEVICE_HOST_MEMORY) != 0; }
  // The most bytes that one Memory can have.
  uint64_t largest_buffer() const {
    return properties_.largest_buffer == 0 ? UINT64_MAX : properties_.largest_buffer;
  }
  // Whether who waits for an event learns of errors of the work before it. Otherwise only
  // Stream::synchronize() tells: the plugin is of a minor version before 2.
  bool events_report_errors() const { return is_inline() || plugin_->minor() >= 2; }

  // These make objects that keep the device open; see their classes.
  Memory allocate(uint64_t bytes, int32_t kind = RT_MEMORY_DEVICE);
  Stream create_stream();
  Event create_event();
  rt_memory_info memory_info();
  rt_utilisation utilisation();  // load of the whole device; -1: unknown

  // Kernels, see rt_kernel_api. Throw RT_ERROR_UNSUPPORTED if the plugin offers no kernels.
  Support query(const Operation& operation);
  Kernel create_kernel(const Operation& operation);
  uint64_t layout_bytes(const rt_tensor_desc& tensor);
  std::string layout_name(const rt_tensor_desc& tensor);

  // The calls that wait for the device now. They may be asked for longer than the device is open.
  const std::shared_ptr<Calls>& calls() const { return calls_; }
  rt_device* get() const { return device_; }

 private:
  friend class Stream;
  Device(std::shared_ptr<Plugin> plugin, int32_t index);
  std::shared_ptr<Plugin> plugin_;
  std::string id_;
  rt_device_properties properties_{};
  DeviceOptions options_;
  rt_device* device_ = nullptr;
  std::atomic<int> streams_ = 0;  // made so far
  const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_DEVICE_H_
