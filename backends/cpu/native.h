// Our own kernels: everything that is not a convolution, a matrix product or a reorder.
#ifndef BACKENDS_CPU_NATIVE_H_
#define BACKENDS_CPU_NATIVE_H_

#include <memory>
#include <string>
#include <utility>

#include "backends/cpu/engine.h"
#include "backends/cpu/layouts.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

struct NativeContext {
  Engine& engine;
  Layouts& layouts;

  // View of an image in its layout; RT_LAYOUT_ANY counts as canonical, and a tensor of another rank
  // as an image of one column and `rows` = product of all dimensions but the last. Throws for a
  // layout that is no image layout.
  ImageView view(const Operation& op, const rt_tensor_desc& tensor) const;
};

// A plan whose work is a function object body(const rt_launch&); it must be callable concurrently.
template <typename Body>
class FunctionPlan : public Plan {
 public:
  FunctionPlan(const Engine& engine, std::string implementation, Body body)
      : engine_(engine), body_(std::move(body)) {
    info_.implementation = std::move(implementation);
  }
  PlanInfo& edit() { return info_; }
  void launch(const rt_launch& launch) override {
    engine_.bind_calling_thread();
    body_(launch);
  }

 private:
  const Engine& engine_;
  Body body_;
};

template <typename Body>
std::unique_ptr<FunctionPlan<Body>> make_plan(const NativeContext& context, const char* name,
                                              Body body) {
  return std::make_unique<FunctionPlan<Body>>(
      context.engine, std::string(name) + ":" + kernel_suffix(context.engine.isa()),
      std::move(body));
}

template <typename T>
const T* input(const rt_launch& launch, uint32_t i) {
  return static_cast<const T*>(launch.inputs[i]);
}
template <typename T>
T* output(const rt_launch& launch, uint32_t i) {
  return static_cast<T*>(launch.outputs[i]);
}

// Checks that throw RT_ERROR_INVALID_ARGUMENT naming the operand.
void expect_counts(const Operation& op, uint32_t inputs, uint32_t outputs);
void expect_dtype(const Operation& op, const rt_tensor_desc& tensor, rt_dtype dtype,
                  const char* what);
void expect_float(const Operation& op);  // every operand is float32
void expect_same_dims(const Operation& op, const rt_tensor_desc& a, const rt_tensor_desc& b);
void expect_elements(const Operation& op, const rt_tensor_desc& tensor, int64_t count,
                     const char* what);
// Product of all dimensions but the last; the last (1 for a scalar).
int64_t row_count(const rt_tensor_desc& tensor);
int64_t last_dim(const rt_tensor_desc& tensor);

using MakePlan = std::unique_ptr<Plan> (*)(const NativeContext&, const Operation&);

// Which layouts the operands may have.
enum class LayoutRule {
  kCanonical,    // none but canonical
  kElementwise,  // all operands shaped like output 0 in one layout, any order of elements
  kSameImage,    // likewise, but an image layout
  kPooling,      // input 0 and output 0 in image layouts each
  kImageInput,   // input 0 in an image layout
  kImageOutput,  // output 0 in an image layout
};
struct NativeKernel {
  const char* name;
  LayoutRule rule;
  MakePlan make;
  bool fuses = false;  // post-operations, by PostChain
};

// One table a family.
struct KernelTable {
  const NativeKernel* begin;
  size_t count;
};
KernelTable elementwise_kernels();
KernelTable pooling_kernels();
KernelTable loss_kernels();
KernelTable reduction_kernels();
KernelTable optimizer_kernels();
KernelTable norm_kernels();
KernelTable norm_parts_kernels();
KernelTable data_kernels();
KernelTable attention_kernels();
// What its arithmetic takes; 0 for other operations.
double attention_ns(const Engine& engine, const Operation& op);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_NATIVE_H_
