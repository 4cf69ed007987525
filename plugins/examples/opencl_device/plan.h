// A plan: the kernels of one operation, with their constants set and their buffers still open.
#ifndef PLAN_H_
#define PLAN_H_

#include <initializer_list>
#include <vector>

#include "device.h"
#include "rt/sdk/plan_operands.h"

using rt::sdk::Operand;

// How many work items a kernel needs along each axis; the kernels leave out surplus ones.
struct Items {
  int64_t x, y = 1, z = 1;
  std::array<size_t, 3> group = {64, 1, 1};
};

// A number of the type that the plan computes in.
struct Real {
  double value;
};

struct rt_plan : rt::sdk::PlanOperands {
  // Without `build` the plan has no kernels: enough to tell whether an operation is supported.
  rt_plan(rt_device& device, const rt::sdk::Operation& op, bool build);

  // Adds a kernel whose arguments are buffers, and constants behind them.
  template <typename... Constants>
  void run(const char* kernel, const Items& items, std::initializer_list<Operand> buffers,
           Constants... constants) {
    if (!add(kernel, items, buffers)) return;
    (set(constants), ...);
  }

  rt_plan_info info() const { return PlanOperands::info("opencl"); }
  void launch(rt_stream& stream, const rt_launch& launch);

  rt_device& device;
  rt_dtype real = RT_FLOAT32;

 private:
  struct Step {
    Kernel kernel;
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

  const bool build_;
  std::mutex mutex_;  // guards the arguments of kernels in a launch
  std::vector<Step> steps_;
};

// Checks the operation of a plan and adds its kernels. Throws what rt/sdk/answer.h turns into an
// answer.
void add_kernels(rt_plan& plan);

#endif  // PLAN_H_
