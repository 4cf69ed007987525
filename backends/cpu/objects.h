// The opaque structs of the contract as this plugin defines them, and its two tables.
#ifndef BACKENDS_CPU_OBJECTS_H_
#define BACKENDS_CPU_OBJECTS_H_

#include <atomic>
#include <chrono>
#include <memory>

#include "backends/cpu/engine.h"
#include "backends/cpu/providers.h"
#include "rt/device.h"
#include "rt/kernel.h"

// One opened device.
struct rt_device {
  explicit rt_device(const backends::cpu::EngineOptions& options) : engine(options) {
    backends::cpu::add_providers(engine);
  }
  backends::cpu::Engine engine;
};

// Streams are inline, so a stream has no state of its own.
struct rt_stream {
  rt_device* device;
};

// The time of the last event_record.
struct rt_event {
  std::chrono::steady_clock::time_point recorded{};
  bool was_recorded = false;
};

// A plan and the numbers of buffers that its launches must pass.
struct rt_plan {
  std::unique_ptr<backends::cpu::Plan> plan;
  uint32_t input_count;
  uint32_t output_count;
  std::atomic<bool> launched = false;  // at least one launch has ended
};

// The tables of rt.device and rt.kernel; both live as long as the process.
namespace backends::cpu {

const rt_device_api& device_api();
const rt_kernel_api& kernel_api();

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_OBJECTS_H_
