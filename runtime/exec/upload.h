// Sends a step's inputs from the host, queued without waiting for earlier steps.
#ifndef RUNTIME_EXEC_UPLOAD_H_
#define RUNTIME_EXEC_UPLOAD_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "plugins/host/drain.h"
#include "runtime/exec/span_recorder.h"

namespace runtime::exec {

// If the device cannot read host memory, the copies of a step are gathered in pinned memory and
// sent together on a stream of their own while earlier steps still compute; the step's stream then
// only moves them to their destinations. Two steps may be in flight. Allocates only when a step is
// larger than all before it. Inputs that are together larger than the device's largest buffer are
// copied on the step's stream. Its destruction waits for all copies. One thread at a time.
class Upload {
 public:
  // `stream` is the step's stream; it must outlive this object.
  explicit Upload(plugins::host::Stream& stream);

  // The room that a copy of so many bytes takes.
  static uint64_t rounded(uint64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  // The bytes of device memory that an Upload takes for steps of `step_bytes` bytes.
  static uint64_t device_bytes(const plugins::host::Device& device, uint64_t step_bytes);

  // `bytes`: an upper bound on the sum of the step's copies, each rounded(). Waits until the
  // transfer of the last step but one has ended.
  void begin_step(uint64_t bytes);
  // Adds a copy. The caller may overwrite `from` when this returns.
  void copy(void* to, const void* from, uint64_t bytes);
  // Queues the copies: work queued on the step's stream from now on sees them. With `spans`, the
  // transfer on the stream of its own is recorded.
  void end_step(SpanRecorder* spans = nullptr);

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
  bool gathers() const { return sending_ && !too_large_; }

  plugins::host::Stream& stream_;
  std::vector<Slot> slots_;
  size_t step_ = 0;
  std::optional<plugins::host::Stream> sending_;  // empty: copies are direct
  bool too_large_ = false;                        // this step's copies are direct
  plugins::host::Drain drain_{stream_};           // its work reads Slot::sent
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_UPLOAD_H_
