// Operations in bfloat16 that are computed by the kernels for float32: operands are copied to
// float32, and results are rounded.
#ifndef BACKENDS_CPU_BFLOAT16_WIDENED_H_
#define BACKENDS_CPU_BFLOAT16_WIDENED_H_

#include <memory>
#include <vector>

#include "backends/cpu/engine.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

// The same operation with float32 operands in place of those in bfloat16, and with canonical
// layouts. Valid while the operation that it was made of lives.
class WideOperation {
 public:
  explicit WideOperation(const Operation& op);
  const rt_op_desc* desc() const { return &desc_; }

 private:
  std::vector<rt_tensor_desc> tensors_;
  std::vector<const rt_tensor_desc*> addresses_;
  rt_op_desc desc_;
};

// Runs `wide`, the plan of WideOperation(op), on float32 copies in the workspace. Each output in
// bfloat16 is rounded once, to nearest even. All operands are canonical.
class WidenedPlan : public Plan {
 public:
  WidenedPlan(const Engine& engine, const Operation& op, std::unique_ptr<Plan> wide);
  void launch(const rt_launch& launch) override;

 private:
  // An operand in bfloat16, and the place of its float32 copy in the workspace.
  struct Copy {
    uint32_t index;
    int64_t count;
    uint64_t offset;
  };
  // A copy of `tensor` behind the end of the workspace, which grows by it.
  Copy place(uint32_t index, const rt_tensor_desc& tensor);

  const Engine& engine_;
  std::unique_ptr<Plan> wide_;
  std::vector<Copy> inputs_, outputs_;
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_BFLOAT16_WIDENED_H_
