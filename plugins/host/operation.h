// C++ values for the descriptions that cross the C border, and their C view.
#ifndef PLUGINS_HOST_OPERATION_H_
#define PLUGINS_HOST_OPERATION_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "rt/kernel.h"

namespace plugins::host {

// Describes a tensor; see rt_tensor_desc. Throws Error (RT_ERROR_INVALID_ARGUMENT) for more than
// RT_MAX_RANK dims or a negative one.
rt_tensor_desc make_tensor_desc(rt_dtype dtype, const std::vector<int64_t>& dims,
                                uint64_t layout = RT_LAYOUT_CANONICAL);

// See rt_attribute.
struct Attribute {
  std::string name;
  std::variant<int64_t, double> value;
  bool operator==(const Attribute&) const = default;
};

// See rt_post_op.
struct PostOp {
  int32_t kind = 0;      // RT_POST_*
  int32_t function = 0;  // RT_ACTIVATION_* for the two activation kinds
  int32_t operand = -1;  // index into Operation::inputs; -1: none
  bool operator==(const PostOp&) const = default;
};

// An operation on fixed shapes; see rt_op_desc. Owns everything that its C view points to, except
// `forward`.
struct Operation {
  std::string name;  // RT_OP_*
  std::vector<rt_tensor_desc> inputs;
  std::vector<rt_tensor_desc> outputs;
  std::vector<Attribute> attributes;
  std::vector<PostOp> post_ops;
  const rt_plan* forward = nullptr;
  uint64_t algorithm = 0;
  uint32_t flags = 0;
  std::string label;  // what it is for, as in "layer 'conv1'"; may be empty
};

// The C view of an Operation, for a plugin of that minor version of the contract. It is valid while
// the Operation lives and does not change.
class OperationView {
 public:
  explicit OperationView(const Operation& operation, uint32_t minor = RT_ABI_MINOR);
  OperationView(const OperationView&) = delete;
  OperationView& operator=(const OperationView&) = delete;
  const rt_op_desc* get() const { return &desc_; }

 private:
  std::vector<const rt_tensor_desc*> inputs_, outputs_;
  std::vector<rt_attribute> attributes_;
  std::vector<const rt_attribute*> attribute_pointers_;
  std::vector<rt_post_op> post_ops_;
  std::vector<const rt_post_op*> post_op_pointers_;
  rt_op_desc desc_;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_OPERATION_H_
