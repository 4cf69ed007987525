// What a step reads from the host, queued without waiting for the steps before it.
#ifndef RUNTIME_EXEC_UPLOAD_H_
#define RUNTIME_EXEC_UPLOAD_H_

#include <array>
#include <memory>

#include "plugins/host/device.h"

namespace runtime::exec {

// Copies go through pinned memory of its own where the device cannot read the host's: from pageable
// memory a device copies only when its turn has come, and the caller would wait for that. Allocates
// in the first steps only. One thread.
class Upload {
 public:
  // The stream outlives it.
  explicit Upload(plugins::host::Stream& stream);

  // Before the copies of a step. Waits for those of the last step but one.
  void begin_step();
  // `from` may be written again when this returns.
  void copy(void* to, const void* from, uint64_t bytes);
  void end_step();

 private:
  struct Pinned {
    plugins::host::Memory memory;
    uint64_t used = 0;
    plugins::host::Event copied;
  };
  void grow(Pinned& pinned, uint64_t bytes);

  plugins::host::Stream& stream_;
  std::array<std::unique_ptr<Pinned>, 2> pinned_;  // none: copies are direct
  size_t step_ = 0;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_UPLOAD_H_
