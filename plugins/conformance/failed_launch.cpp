// Checks who reports the error of a launch that fails after it was queued.
#include <functional>

#include "plugins/conformance/conformance.h"
#include "plugins/conformance/execution.h"
#include "plugins/host/error.h"

namespace plugins::conformance {
namespace {

// The operands of a case, filled with zeros, and the plan.
class Launch {
 public:
  Launch(host::Device& device, const host::Operation& operation)
      : kernel_(device.create_kernel(operation)), stream_(device.create_stream()) {
    for (const rt_tensor_desc& tensor : operation.inputs) inputs_.push_back(add(device, tensor));
    for (const rt_tensor_desc& tensor : operation.outputs) outputs_.push_back(add(device, tensor));
    launch_.size = sizeof(launch_);
    launch_.inputs = inputs_.data();
    launch_.input_count = static_cast<uint32_t>(inputs_.size());
    launch_.outputs = outputs_.data();
    launch_.output_count = static_cast<uint32_t>(outputs_.size());
    launch_.workspace = add(device, kernel_.info().workspace_bytes);
    launch_.saved = add(device, kernel_.info().saved_bytes);
    stream_.synchronize();
  }

  void queue() { kernel_.launch(stream_, launch_); }
  host::Stream& stream() { return stream_; }

 private:
  void* add(host::Device& device, uint64_t bytes) {
    if (bytes == 0) return nullptr;
    memory_.push_back(device.allocate(bytes));
    stream_.fill(memory_.back().data(), 0, bytes);
    return memory_.back().data();
  }
  void* add(host::Device& device, const rt_tensor_desc& tensor) {
    return add(device, device.layout_bytes(tensor));
  }

  host::Kernel kernel_;
  std::vector<host::Memory> memory_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  rt_launch launch_{};
  host::Stream stream_;  // last: destroyed first, which waits for its work
};

// "" if `call` throws the error of the device.
std::string silent(const char* what, const std::function<void()>& call) {
  try {
    call();
  } catch (const host::Error&) {
    return "";
  }
  return std::string(what) +
         " answers that all is well, although a launch before has failed; expected its error";
}

}  // namespace

std::string check_failed_launch(host::Device& device, const Case& c) {
  Launch launch(device, c.operation);
  host::Stream other = device.create_stream();
  host::Event behind = device.create_event();
  launch.queue();
  behind.record(launch.stream());
  behind.wait(other);
  const auto completed = [&] {
    while (!behind.query()) {
    }
  };
  for (const std::string& fault :
       {silent("event_synchronize", [&] { behind.synchronize(); }),
        silent("event_synchronize, asked again,", [&] { behind.synchronize(); }),
        silent("event_query", completed),
        silent("stream_synchronize of a stream that waits for the event",
               [&] { other.synchronize(); }),
        silent("stream_synchronize", [&] { launch.stream().synchronize(); })}) {
    if (!fault.empty()) return fault;
  }
  return "";
}

}  // namespace plugins::conformance
