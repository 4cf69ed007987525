// Makes the arrays of pointers of rt_op_desc, without fields that an older plugin does not know.
#include "plugins/host/operation.h"

#include "plugins/host/error.h"

namespace plugins::host {
namespace {

template <typename T>
std::vector<const T*> addresses(const std::vector<T>& values) {
  std::vector<const T*> pointers;
  pointers.reserve(values.size());
  for (const T& value : values) pointers.push_back(&value);
  return pointers;
}

rt_attribute to_c(const Attribute& attribute) {
  rt_attribute c{};
  c.size = sizeof(c);
  c.name = attribute.name.c_str();
  if (const auto* integer = std::get_if<int64_t>(&attribute.value)) {
    c.type = RT_ATTRIBUTE_INTEGER;
    c.integer = *integer;
  } else {
    c.type = RT_ATTRIBUTE_NUMBER;
    c.number = std::get<double>(attribute.value);
  }
  return c;
}

rt_post_op to_c(const PostOp& post_op) {
  return {.size = sizeof(rt_post_op),
          .kind = post_op.kind,
          .function = post_op.function,
          .operand = post_op.operand};
}

}  // namespace

rt_tensor_desc make_tensor_desc(rt_dtype dtype, const std::vector<int64_t>& dims, uint64_t layout) {
  if (dims.size() > RT_MAX_RANK) {
    throw Error(RT_ERROR_INVALID_ARGUMENT, "a tensor of " + std::to_string(dims.size()) +
                                               " dimensions was described; the contract allows " +
                                               std::to_string(RT_MAX_RANK));
  }
  rt_tensor_desc desc{};
  desc.size = sizeof(desc);
  desc.dtype = dtype;
  desc.rank = static_cast<int32_t>(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) {
      throw Error(RT_ERROR_INVALID_ARGUMENT, "dimension " + std::to_string(i) + " is " +
                                                 std::to_string(dims[i]) + "; expected >= 0");
    }
    desc.dims[i] = dims[i];
  }
  desc.layout = layout;
  return desc;
}

OperationView::OperationView(const Operation& operation, uint32_t minor)
    : inputs_(addresses(operation.inputs)), outputs_(addresses(operation.outputs)), desc_{} {
  attributes_.reserve(operation.attributes.size());
  for (const Attribute& attribute : operation.attributes) attributes_.push_back(to_c(attribute));
  post_ops_.reserve(operation.post_ops.size());
  for (const PostOp& post_op : operation.post_ops) post_ops_.push_back(to_c(post_op));
  attribute_pointers_ = addresses(attributes_);
  post_op_pointers_ = addresses(post_ops_);
  desc_ = {.size = sizeof(rt_op_desc),
           .flags = operation.flags,
           .name = operation.name.c_str(),
           .inputs = inputs_.data(),
           .outputs = outputs_.data(),
           .attributes = attribute_pointers_.data(),
           .post_ops = post_op_pointers_.data(),
           .input_count = static_cast<uint32_t>(inputs_.size()),
           .output_count = static_cast<uint32_t>(outputs_.size()),
           .attribute_count = static_cast<uint32_t>(attributes_.size()),
           .post_op_count = static_cast<uint32_t>(post_ops_.size()),
           .forward = operation.forward,
           .algorithm = operation.algorithm,
           .label = minor < 2 || operation.label.empty() ? nullptr : operation.label.c_str()};
}

}  // namespace plugins::host
