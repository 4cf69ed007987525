// The opaque structs of the contract as this plugin defines them, and its two tables.
#ifndef BACKENDS_CPU_OBJECTS_H_
#define BACKENDS_CPU_OBJECTS_H_

#include <atomic>
#include <memory>

#include "backends/cpu/engine.h"
#include "backends/cpu/providers.h"
#include "rt/sdk/inline_event.h"
#include "rt/sdk/kernel_table.h"

// One opened device. The methods are those of rt/sdk/device_table.h.
struct rt_device {
  explicit rt_device(const backends::cpu::EngineOptions& options) : engine(options) {
    backends::cpu::add_providers(engine);
  }
  void* allocate(uint64_t bytes, int32_t kind);
  void release(void* address, int32_t kind);
  rt_memory_info memory_info() const;
  static rt_utilisation utilisation() { return {0, -1, -1, -1, -1}; }

  backends::cpu::Engine engine;
};

// Streams are inline, so a stream has no state of its own.
struct rt_stream {
  explicit rt_stream(rt_device& device) : engine(device.engine) {}
  void synchronize() {}  // always idle
  void copy(void* to, const void* from, uint64_t bytes);
  void fill(void* to, int32_t value, uint64_t bytes);

  const backends::cpu::Engine& engine;
};

struct rt_event : rt::sdk::InlineEvent {
  explicit rt_event(rt_device&) {}
};

// A plan, with the methods of rt/sdk/kernel_table.h.
struct rt_plan : rt::sdk::PlanBase {
  rt_plan_info info() const;
  void launch(rt_stream& stream, const rt_launch& launch);

  std::unique_ptr<backends::cpu::Plan> plan;
  std::atomic<bool> launched = false;  // at least one launch has ended
};

namespace backends::cpu {

// The devices of an instance; there is one.
struct Devices {
  static int32_t count() { return 1; }
  static rt_device_properties properties(int32_t index);
  static rt_device* open(int32_t index, const rt_device_options& options);
};

// The table rt.kernel, which lives as long as the process.
extern const rt_kernel_api kKernelApi;

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_OBJECTS_H_
