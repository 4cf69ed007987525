// The addresses that a kernel is launched with.
#ifndef RUNTIME_EXEC_LAUNCH_ADDRESSES_H_
#define RUNTIME_EXEC_LAUNCH_ADDRESSES_H_

#include <vector>

#include "plugins/host/launch.h"

namespace runtime::exec {

// The addresses of one launch.
struct LaunchAddresses {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
  void* saved = nullptr;
  // Valid while this object lives and does not change.
  rt_launch launch() const { return plugins::host::make_launch(inputs, outputs, workspace, saved); }
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_LAUNCH_ADDRESSES_H_
