// A plan: the kernels of one operation, with their constants set and their buffers still open.
#ifndef PLAN_H_
#define PLAN_H_

#include <array>
#include <initializer_list>
#include <vector>

#include "device.h"
#include "rt/sdk/kernel_table.h"

// An operand of a kernel: an operand of the operation, or a part of the workspace or saved data.
struct Operand {
  enum Kind { kInput, kOutput, kWorkspace, kSaved } kind;
  uint32_t index;   // of an input or output
  uint64_t offset;  // bytes from its address
  uint64_t bytes;
};

// How many work items a kernel needs along each axis; the kernels leave out surplus ones.
struct Items {
  int64_t x, y = 1, z = 1;
  std::array<size_t, 3> group = {64, 1, 1};
};

// A number of the type that the plan computes in.
struct Real {
  double value;
};

struct rt_plan : rt::sdk::PlanBase {
  // Without `build` the plan has no kernels: enough to tell whether an operation is supported.
  rt_plan(rt_device& device, const rt::sdk::Operation& op, bool build);

  // For the functions of operations.cpp. `in` and `out` are operands of the operation.
  Operand in(uint32_t i) const;
  Operand out(uint32_t i) const;
  Operand scratch(int64_t bytes);
  // Adds a kernel whose arguments are buffers, and constants behind them.
  template <typename... Constants>
  void run(const char* kernel, const Items& items, std::initializer_list<Operand> buffers,
           Constants... constants) {
    if (!add(kernel, items, buffers)) return;
    (set(constants), ...);
  }

  rt_plan_info info() const;
  void launch(rt_stream& stream, const rt_launch& launch);

  rt_device& device;
  const rt::sdk::Operation& op;  // only while the plan is made
  rt_dtype real = RT_FLOAT32;
  uint64_t saved_bytes = 0;
  std::array<uint32_t, RT_MAX_OUTPUTS> in_place{};

 private:
  struct Step {
    opencl_device::Kernel kernel;
    cl_uint arguments = 0;  // that are set
    std::vector<Operand> buffers;
    std::array<size_t, 3> items, group;
  };

  bool add(const char* kernel, const Items& items, std::initializer_list<Operand> buffers);
  void set_bytes(const void* value, size_t bytes);
  template <typename T>
  void set(T value) {
    set_bytes(&value, sizeof(value));
  }
  void set(Real number);
  void set_buffer(const Step& step, cl_uint i, const rt_launch& launch) const;

  const std::string name_;
  const bool build_;
  std::mutex mutex_;  // guards the arguments of kernels in a launch
  std::vector<Step> steps_;
  uint64_t workspace_bytes_ = 0;
};

#endif  // PLAN_H_
