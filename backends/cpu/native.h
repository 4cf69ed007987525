// Our own kernels serve every operation that is not a convolution, a matrix product or a reorder.
#ifndef BACKENDS_CPU_NATIVE_H_
#define BACKENDS_CPU_NATIVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "backends/cpu/engine.h"
#include "backends/cpu/layouts.h"
#include "backends/cpu/provider.h"
#include "rt/sdk/expect.h"

namespace backends::cpu {

// What the makers of native plans share. Belongs to one opened device.
struct NativeContext {
  Engine& engine;
  Layouts& layouts;

  // The view of an image in its layout; RT_LAYOUT_ANY counts as canonical. A tensor whose rank is
  // not 4 is seen as an image of width 1 whose height is the product of all dimensions but the
  // last. Throws rt::sdk::Error for a layout that is no image layout.
  ImageView view(const Operation& op, const rt_tensor_desc& tensor) const;
};

// A plan whose work is the function object body(const rt_launch&), which must be callable from
// several threads at once.
template <typename Body>
class FunctionPlan : public Plan {
 public:
  // The name is moved, which clang-tidy 14 does not see in a template.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  FunctionPlan(std::string implementation, Body body) : body_(std::move(body)) {
    info_.implementation = std::move(implementation);
  }
  PlanInfo& edit() { return info_; }
  void launch(const rt_launch& launch) override { body_(launch); }

 private:
  Body body_;
};

// A FunctionPlan of `body` whose implementation is `name` with the instruction set appended
// ("native:softmax:avx2").
template <typename Body>
std::unique_ptr<FunctionPlan<Body>> make_plan(const NativeContext& context, const char* name,
                                              Body body) {
  return std::make_unique<FunctionPlan<Body>>(
      std::string(name) + ":" + kernel_suffix(context.engine.isa()), std::move(body));
}

// Address of input or output `i` of a launch, as elements of type T.
template <typename T>
const T* input(const rt_launch& launch, uint32_t i) {
  return static_cast<const T*>(launch.inputs[i]);
}
template <typename T>
T* output(const rt_launch& launch, uint32_t i) {
  return static_cast<T*>(launch.outputs[i]);
}

// These checks throw RT_ERROR_INVALID_ARGUMENT with the operand's name in the text.
using rt::sdk::expect_counts;
void expect_dtype(const Operation& op, const rt_tensor_desc& tensor, rt_dtype dtype,
                  const char* what);
void expect_float(const Operation& op);  // every operand is float32
void expect_same_dims(const Operation& op, const rt_tensor_desc& a, const rt_tensor_desc& b);
void expect_elements(const Operation& op, const rt_tensor_desc& tensor, int64_t count,
                     const char* what);
// Product of all dimensions but the last, and the last dimension (1 for a scalar).
int64_t row_count(const rt_tensor_desc& tensor);
int64_t last_dim(const rt_tensor_desc& tensor);

// Checks the operation and makes its plan. Throws rt::sdk::Error.
using MakePlan = std::unique_ptr<Plan> (*)(const NativeContext&, const Operation&);

// The layouts in which an operation of our own accepts its operands.
enum class LayoutRule {
  kCanonical,    // every operand is canonical
  kElementwise,  // operands shaped like output 0 share its layout; the order of elements is
                 // irrelevant
  kSameImage,    // operands shaped like output 0 share its layout, which is an image layout or the
                 // batch-blocked one with a sample in every lane
  kPooling,      // input 0 and output 0 each have an image layout; the two may differ
  kImageInput,   // input 0 has an image layout
  kImageOutput,  // output 0 has an image layout
};
// One operation of the table: what it accepts and how its plan is made.
struct NativeKernel {
  enum Trait : uint32_t {
    kFuses = 1,     // applies post-operations, by PostChain
    kBfloat16 = 2,  // reads and writes bfloat16 by itself, in canonical layouts
  };

  const char* name;
  LayoutRule rule;
  MakePlan make;
  uint32_t traits = 0;

  bool has(Trait trait) const { return (traits & trait) != 0; }
};

// Each family of operations has one table; the entries live as long as the process.
struct KernelTable {
  const NativeKernel* begin;
  size_t count;
};
// The tables of the families, each from the source file of its name (native_elementwise.cpp).
KernelTable elementwise_kernels();
KernelTable pooling_kernels();
KernelTable loss_kernels();
KernelTable reduction_kernels();
KernelTable optimizer_kernels();
KernelTable norm_kernels();
KernelTable norm_parts_kernels();
KernelTable row_norm_kernels();
KernelTable gate_kernels();
KernelTable rotary_kernels();
KernelTable data_kernels();
KernelTable attention_kernels();
// The row of an operation in these tables, or nullptr.
const NativeKernel* find_native_kernel(const Operation& op);
// Estimated nanoseconds of the arithmetic of attention or its gradient; 0 for other operations.
double attention_ns(const Engine& engine, const Operation& op);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_NATIVE_H_
