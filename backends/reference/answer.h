// What all C tables over these kernels share: the answers of query, info and layouts, and the
// checks of a launch. The plugin and the simulated accelerator of the tests use it. All functions
// throw rt::sdk::Error.
#ifndef BACKENDS_REFERENCE_ANSWER_H_
#define BACKENDS_REFERENCE_ANSWER_H_

#include <string>
#include <vector>

#include "backends/reference/kernel.h"

namespace backends::reference {

// Fills the whole answer. A refused operation is an answer; a broken description throws.
void answer_query(const rt_op_desc* op, rt_support* support);

// A kernel and the buffers that a launch of it must pass. Immutable.
class Planned {
 public:
  // Throws what make_kernel throws, and an error for RT_LAYOUT_ANY or an algorithm that
  // answer_query does not list. `forward` is the forward plan of a backward that reads saved data,
  // else nullptr; it is used only during construction.
  Planned(const rt_op_desc* op, const Planned* forward);

  const Kernel& kernel() const { return kernel_; }
  const std::string& name() const { return name_; }
  const std::vector<uint64_t>& input_bytes() const { return input_bytes_; }
  const std::vector<uint64_t>& output_bytes() const { return output_bytes_; }
  // Bytes that a launch finds, or writes, at its `saved` address.
  uint64_t saved_bytes() const { return kernel_.saved_bytes + kernel_.reads_saved; }

  rt_plan_info info() const;
  // Throws unless the launch has every address that the plan needs.
  void check_launch(const rt_launch* launch) const;

 private:
  Kernel kernel_;
  std::string name_;
  std::vector<uint64_t> input_bytes_, output_bytes_;
};

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_ANSWER_H_
