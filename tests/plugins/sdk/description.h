// Builds the description of an operation for tests.
#ifndef TESTS_PLUGINS_SDK_DESCRIPTION_H_
#define TESTS_PLUGINS_SDK_DESCRIPTION_H_

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "rt/kernel.h"
#include "rt/sdk/operation.h"

namespace rt::sdk {

// Every tensor is float32 in the canonical layout unless said otherwise. The description that
// desc() returns is valid while this object lives and is not changed.
class Description {
 public:
  explicit Description(const char* name) : name_(name) {}
  Description& in(const std::vector<int64_t>& dims, rt_dtype dtype = RT_FLOAT32,
                  uint64_t layout = RT_LAYOUT_CANONICAL) {
    return add(inputs_, dims, dtype, layout);
  }
  Description& out(const std::vector<int64_t>& dims, rt_dtype dtype = RT_FLOAT32) {
    return add(outputs_, dims, dtype, RT_LAYOUT_CANONICAL);
  }
  Description& integer(const char* key, int64_t value) {
    attributes_.push_back({sizeof(rt_attribute), RT_ATTRIBUTE_INTEGER, key, value, 0.0});
    return *this;
  }
  Description& number(const char* key, double value) {
    attributes_.push_back({sizeof(rt_attribute), RT_ATTRIBUTE_NUMBER, key, 0, value});
    return *this;
  }
  Description& post_op(int32_t kind, int32_t function = 0) {
    post_ops_.push_back({sizeof(rt_post_op), kind, function, -1});
    return *this;
  }

  const rt_op_desc* desc() {
    desc_ = {};
    desc_.size = sizeof(desc_);
    desc_.name = name_;
    desc_.inputs = point(inputs_, in_, &desc_.input_count);
    desc_.outputs = point(outputs_, out_, &desc_.output_count);
    desc_.attributes = point(attributes_, attribute_, &desc_.attribute_count);
    desc_.post_ops = point(post_ops_, post_op_, &desc_.post_op_count);
    return &desc_;
  }

 private:
  Description& add(std::deque<rt_tensor_desc>& list, const std::vector<int64_t>& dims,
                   rt_dtype dtype, uint64_t layout) {
    rt_tensor_desc tensor{};
    tensor.size = sizeof(tensor);
    tensor.dtype = dtype;
    tensor.rank = static_cast<int32_t>(dims.size());
    tensor.layout = layout;
    std::copy(dims.begin(), dims.end(), tensor.dims);
    list.push_back(tensor);
    return *this;
  }
  template <typename T>
  static const T* const* point(const std::deque<T>& list, std::vector<const T*>& pointers,
                               uint32_t* count) {
    pointers.clear();
    for (const T& element : list) pointers.push_back(&element);
    *count = static_cast<uint32_t>(list.size());
    return pointers.data();
  }

  const char* name_;
  std::deque<rt_tensor_desc> inputs_, outputs_;
  std::deque<rt_attribute> attributes_;
  std::deque<rt_post_op> post_ops_;
  std::vector<const rt_tensor_desc*> in_, out_;
  std::vector<const rt_attribute*> attribute_;
  std::vector<const rt_post_op*> post_op_;
  rt_op_desc desc_{};
};

// The message of the Error that `body` throws; "no error" if it throws none.
template <typename Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace rt::sdk

#endif  // TESTS_PLUGINS_SDK_DESCRIPTION_H_
