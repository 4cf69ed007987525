// What a step reads from the host, queued without waiting for the steps before it.
#ifndef RUNTIME_EXEC_UPLOAD_H_
#define RUNTIME_EXEC_UPLOAD_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "plugins/host/device.h"

namespace runtime::exec {

// Where the device cannot read the host's memory, the copies of a step are gathered in pinned
// memory and sent at once, on a stream of their own, while the steps before still compute; the
// step's stream then only moves them to their places. Two steps are in flight. Allocates when a
// step is larger than all before. One thread.
class Upload {
 public:
  // The stream outlives it.
  explicit Upload(plugins::host::Stream& stream);

  // Room for a copy.
  static uint64_t rounded(uint64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  // What it takes of the device's memory for steps of so many bytes.
  static uint64_t device_bytes(const plugins::host::Device& device, uint64_t step_bytes);

  // `bytes`: the most that the step's copies take together, each rounded. Waits for the sending of
  // the last step but one.
  void begin_step(uint64_t bytes);
  // `from` may be written again when this returns.
  void copy(void* to, const void* from, uint64_t bytes);
  void end_step();

 private:
  static constexpr uint64_t kAlignment = 256;
  static constexpr size_t kInFlight = 2;

  struct Copy {
    void* to;
    uint64_t offset, bytes;
  };
  struct Slot {
    plugins::host::Memory pinned, sent;
    plugins::host::Event arrived, taken;
    std::vector<Copy> copies;
    uint64_t used = 0;
  };
  Slot& slot() { return slots_[step_ % kInFlight]; }

  plugins::host::Stream& stream_;
  std::optional<plugins::host::Stream> sending_;  // none: copies are direct
  std::vector<Slot> slots_;
  size_t step_ = 0;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_UPLOAD_H_
