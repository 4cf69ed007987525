// The objects behind the opaque types of the contract.
#ifndef TEMPLATE_DEVICE_H_
#define TEMPLATE_DEVICE_H_

#include <functional>
#include <map>
#include <mutex>

#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/sdk/inline_event.h"
#include "rt/sdk/kernel_table.h"

namespace template_device {

// The devices of one instance of the plugin. The methods are those of rt/sdk/device_table.h.
class Devices {
 public:
  int32_t count() const { return 1; }
  rt_device_properties properties(int32_t index) const;
  rt_device* open(int32_t index, const rt_device_options& options) const;
};

// Throws Error or a refusal (rt/sdk/refusal.h) unless the operation can be computed.
void check_supported(rt_device& device, const rt::sdk::Operation& op);
rt_plan* make_plan(rt_device& device, const rt::sdk::Operation& op);

}  // namespace template_device

// An opened device. All methods may be called from any thread.
struct rt_device {
  ~rt_device();
  void* allocate(uint64_t bytes, int32_t kind);
  void release(void* address, int32_t kind);
  rt_memory_info memory_info() const;

 private:
  mutable std::mutex mutex_;
  std::map<void*, uint64_t> sizes_;  // guarded by mutex_, as is allocated_
  uint64_t allocated_ = 0;           // bytes
};

// A queue of work, which one thread uses at a time. Here the work runs in the call.
struct rt_stream {
  explicit rt_stream(rt_device&) {}
  void synchronize() {}
  void copy(void* to, const void* from, uint64_t bytes);
  void fill(void* to, int32_t value, uint64_t bytes);
};

// The stream has done everything in front of an event when it is recorded. For streams with queues
// see rt/sdk/recorded_event.h.
struct rt_event : rt::sdk::InlineEvent {
  explicit rt_event(rt_device&) {}
};

// One operation on fixed shapes, checked and ready to run.
struct rt_plan : rt::sdk::PlanBase {
  rt_plan_info info() const;
  // A launch may not allocate, and on a queued stream it may not wait.
  void launch(rt_stream&, const rt_launch& launch) { run(launch); }

  const char* implementation = "";
  std::function<void(const rt_launch&)> run = nullptr;
  bool in_place = false;  // output 0 may use the memory of input 0
};

#endif  // TEMPLATE_DEVICE_H_
