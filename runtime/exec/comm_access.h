// How a communicator accesses the buffers that its calls send and receive.
#ifndef RUNTIME_EXEC_COMM_ACCESS_H_
#define RUNTIME_EXEC_COMM_ACCESS_H_

#include <string>
#include <vector>

#include "plugins/host/communicator.h"

namespace runtime::exec {

// The ways to access a buffer.
enum class Access {
  kHost,    // directly: the host may access the memory
  kStaged,  // through pinned host memory
  kDevice,  // in device memory, after the host has waited for its computation
  kStream,  // in device memory, on a stream of the device: the host does not wait
};

// The answers of a communicator's plugin about access to the device that the communicator was made
// with.
class CommAccess {
 public:
  // Asks the communicator's plugin once; keeps no reference.
  explicit CommAccess(const plugins::host::Communicator& communicator);

  // The access for one call whose buffers are on `device`.
  Access of(const rt_collective& call, const plugins::host::Device& device) const;
  // Whether `send` and `receive` of the call may share memory of the kind that the call has.
  bool works_in_place(const rt_collective& call) const;
  // Whether sums of values on `device` go through pinned host memory.
  bool stages(const plugins::host::Device& device) const;
  // Whether it reads host memory; if not, calls on host memory go through device memory.
  bool reads_host() const { return reads_host_; }
  // Whether any call may be Access::kStream.
  bool on_stream() const;

  // The plugin claims to read the memory of some devices; the ranks test this once. has_choice:
  // whether they should test it, since host memory could be used instead. claims_device: whether
  // the claim covers this rank's device. distrust: gives up the claim after the test has failed.
  bool has_choice() const;
  bool claims_device() const { return reads_device_; }
  void distrust() { reads_device_ = false; }

 private:
  const rt_comm_capability* row_of(const rt_collective& call, uint32_t memory) const;
  bool is_own(const plugins::host::Device& device) const;

  std::vector<rt_comm_capability> rows_;
  std::string claimed_;  // the plugin whose device memory the communicator claims to read; "": none
  bool reads_host_ = true, reads_device_ = false;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_COMM_ACCESS_H_
