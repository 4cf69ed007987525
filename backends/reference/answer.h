// What the C tables over these kernels have in common: the answers of query, info and layouts, and
// the checks of a launch. Shared with the simulated accelerator of the tests.
#ifndef BACKENDS_REFERENCE_ANSWER_H_
#define BACKENDS_REFERENCE_ANSWER_H_

#include <string>
#include <vector>

#include "backends/reference/kernel.h"

namespace backends::reference {

// Refuses a struct that the caller passes in if it is missing, shorter than version 1 (T), or has a
// tail that is not zero (RT_ERROR_TOO_NEW).
void check_struct(const void* data, uint64_t known_size, const char* what);

template <typename T>
void check_struct(const T* data, const char* what) {
  check_struct(data, sizeof(T), what);
}

// check_struct for the description and everything that it points to.
void check_description(const rt_op_desc* op);

// Fills the whole answer; refused operations are an answer, broken descriptions an Error.
void answer_query(const rt_op_desc* op, rt_support* support);

// Bytes of the canonical layout.
uint64_t tensor_bytes(const rt_tensor_desc& tensor);

// A kernel with what a launch of it must bring. Immutable.
class Planned {
 public:
  // As make_kernel; also refuses RT_LAYOUT_ANY and an algorithm that answer_query does not name.
  // `forward`: the forward plan of a backward that reads saved data, else nullptr.
  Planned(const rt_op_desc* op, const Planned* forward);

  const Kernel& kernel() const { return kernel_; }
  const std::string& name() const { return name_; }
  const std::vector<uint64_t>& input_bytes() const { return input_bytes_; }
  const std::vector<uint64_t>& output_bytes() const { return output_bytes_; }
  // What the launch finds at its `saved` address.
  uint64_t saved_bytes() const { return kernel_.saved_bytes + kernel_.reads_saved; }

  void fill_info(rt_plan_info* info) const;
  // Fails unless the launch has all the addresses that the plan needs.
  void check_launch(const rt_launch* launch) const;

 private:
  Kernel kernel_;
  std::string name_;
  std::vector<uint64_t> input_bytes_, output_bytes_;
};

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_ANSWER_H_
