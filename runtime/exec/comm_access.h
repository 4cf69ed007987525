// How a communicator gets at what its calls send and receive.
#ifndef RUNTIME_EXEC_COMM_ACCESS_H_
#define RUNTIME_EXEC_COMM_ACCESS_H_

#include <string>
#include <vector>

#include "plugins/host/communicator.h"

namespace runtime::exec {

enum class Access {
  kHost,    // as it is: the host may touch the memory
  kStaged,  // through pinned host memory
  kDevice,  // in the device's memory, once the host has seen that it is computed
  kStream,  // in the device's memory, on a stream of it: the host waits for nothing
};

// What the plugin of a communicator says, for the device that the communicator was made with.
class CommAccess {
 public:
  explicit CommAccess(const plugins::host::Communicator& communicator);

  Access of(const rt_collective& call, const plugins::host::Device& device) const;
  // Whether sums of what is on the device go through pinned host memory.
  bool stages(const plugins::host::Device& device) const;
  // Whether it reads host memory; else calls on that go through the device's.
  bool reads_host() const { return reads_host_; }
  // Whether some call may be Access::kStream.
  bool on_stream() const;

  // Whether all ranks have to see what the plugin's word is worth, since there is another way, and
  // whether it is about this rank's device.
  bool has_choice() const;
  bool claims_device() const { return reads_device_; }
  void distrust() { reads_device_ = false; }

 private:
  const rt_comm_capability* row_of(const rt_collective& call) const;
  bool is_own(const plugins::host::Device& device) const;

  std::vector<rt_comm_capability> rows_;
  std::string claimed_;  // the plugin whose devices' memory it reads, as it says; "": none
  bool reads_host_ = true, reads_device_ = false;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_COMM_ACCESS_H_
