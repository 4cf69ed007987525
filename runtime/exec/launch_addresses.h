// The addresses that a kernel is launched with.
#ifndef RUNTIME_EXEC_LAUNCH_ADDRESSES_H_
#define RUNTIME_EXEC_LAUNCH_ADDRESSES_H_

#include <vector>

#include "rt/kernel.h"

namespace runtime::exec {

// The addresses of one launch.
struct LaunchAddresses {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
  void* saved = nullptr;
  // Valid while this object lives and does not change.
  rt_launch launch() const {
    rt_launch launch{};
    launch.size = sizeof(launch);
    launch.inputs = inputs.data();
    launch.input_count = static_cast<uint32_t>(inputs.size());
    launch.outputs = outputs.data();
    launch.output_count = static_cast<uint32_t>(outputs.size());
    launch.workspace = workspace;
    launch.saved = saved;
    return launch;
  }
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_LAUNCH_ADDRESSES_H_
