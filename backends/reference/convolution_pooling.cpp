// conv2d_pool2d and conv2d_pool2d_backward_weights, composed of the operations that they replace.
// With v = f(conv2d(x, w) + b), which is [N,P,Q,O], the forward operation saves
// - v for the functions whose gradient is computed from their result, else f's argument and v,
// - the winners of the maximum.
#include <deque>

#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "rt/sdk/conv_pool.h"

namespace backends::reference {
namespace {

using rt::sdk::ConvPoolShape;

// The description of an operation that is a part of another one. All operands have one type.
class Part {
 public:
  Part(const char* name, rt_dtype dtype) : dtype_(dtype) {
    desc_.size = sizeof(desc_);
    desc_.name = name;
  }
  Part& in(const Dims& dims) { return add(inputs_, dims); }
  Part& out(const Dims& dims) { return add(outputs_, dims); }
  Part& integer(const char* name, int64_t value) {
    attributes_.push_back({sizeof(rt_attribute), RT_ATTRIBUTE_INTEGER, name, value, 0.0});
    return *this;
  }
  // Takes over the attributes of `op`, of which the part reads those that it knows.
  Part& attributes_of(const Operation& op) {
    for (uint32_t i = 0; i < op.desc().attribute_count; ++i)
      attributes_.push_back(*op.desc().attributes[i]);
    return *this;
  }
  Part& bias(const Dims& dims) {
    post_ops_.push_back(
        {sizeof(rt_post_op), RT_POST_BIAS, 0, static_cast<int32_t>(inputs_.size())});
    return in(dims);
  }
  Kernel kernel() {
    std::vector<const rt_tensor_desc*> inputs, outputs;
    std::vector<const rt_attribute*> attributes;
    std::vector<const rt_post_op*> post_ops;
    desc_.inputs = point(inputs_, inputs, desc_.input_count);
    desc_.outputs = point(outputs_, outputs, desc_.output_count);
    desc_.attributes = point(attributes_, attributes, desc_.attribute_count);
    desc_.post_ops = point(post_ops_, post_ops, desc_.post_op_count);
    return make_kernel(Operation(&desc_));
  }

 private:
  Part& add(std::deque<rt_tensor_desc>& list, const Dims& dims) {
    rt_tensor_desc tensor{};
    tensor.size = sizeof(tensor);
    tensor.dtype = dtype_;
    tensor.rank = static_cast<int32_t>(dims.size());
    std::copy(dims.begin(), dims.end(), tensor.dims);
    list.push_back(tensor);
    return *this;
  }
  template <typename T>
  static const T* const* point(const std::deque<T>& list, std::vector<const T*>& pointers,
                               uint32_t& count) {
    for (const T& element : list) pointers.push_back(&element);
    count = static_cast<uint32_t>(list.size());
    return pointers.data();
  }

  rt_dtype dtype_;
  rt_op_desc desc_{};
  std::deque<rt_tensor_desc> inputs_, outputs_;
  std::deque<rt_attribute> attributes_;
  std::deque<rt_post_op> post_ops_;
};

// Where things lie in the saved data: bytes from its beginning.
struct Saved {
  uint64_t argument, value, winners, bytes;
};

uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

bool is_gelu(int32_t function) {
  return function == RT_ACTIVATION_GELU || function == RT_ACTIVATION_GELU_TANH;
}

uint64_t image_bytes(const ConvPoolShape& s, rt_dtype dtype) {
  const uint64_t element = dtype == RT_FLOAT64 ? sizeof(double) : sizeof(float);
  return aligned(static_cast<uint64_t>(product(s.convolution.result())) * element);
}

Saved saved_of(const ConvPoolShape& s, rt_dtype dtype) {
  const uint64_t image = image_bytes(s, dtype);
  Saved saved{};
  saved.value = is_gelu(s.function) ? image : 0;
  saved.winners = saved.value + image;
  saved.bytes = saved.winners;
  if (!s.average) saved.bytes += static_cast<uint64_t>(product(s.result())) * sizeof(int64_t);
  return saved;
}

// The pooling (`from` image, `to` result) or its gradient (the other way round).
Kernel pooling(const ConvPoolShape& s, rt_dtype dtype, const char* name, const Dims& from,
               const Dims& to) {
  Part part(name, dtype);
  part.in(from).out(to);
  part.integer(RT_ATTR_KERNEL_H, s.kernel_h).integer(RT_ATTR_STRIDE_H, s.kernel_h);
  part.integer(RT_ATTR_KERNEL_W, s.kernel_w).integer(RT_ATTR_STRIDE_W, s.kernel_w);
  return part.kernel();
}

// An activation, or its gradient if it has two `inputs`; nothing if there is no function.
Kernel activation(const ConvPoolShape& s, rt_dtype dtype, const char* name, int inputs) {
  if (s.function == 0) return {};
  Part part(name, dtype);
  for (int i = 0; i < inputs; ++i) part.in({product(s.convolution.result())});
  part.out({product(s.convolution.result())}).integer(RT_ATTR_FUNCTION, s.function);
  return part.kernel();
}

char* at(void* begin, uint64_t offset) { return static_cast<char*>(begin) + offset; }

// Runs a part, if it is one, on these addresses.
void run(const Kernel& kernel, std::initializer_list<const void*> inputs,
         std::array<void*, 2> outputs, void* workspace, void* saved = nullptr) {
  if (kernel.run) kernel.run({inputs.begin(), outputs.data(), workspace, saved});
}

}  // namespace

Kernel make_conv2d_pool2d(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  const ConvPoolShape s = rt::sdk::conv2d_pool2d_shape(op, dtype);
  const Dims image = s.convolution.result();
  Part part(RT_OP_CONV2D, dtype);
  part.in(s.convolution.image()).in(s.convolution.weights()).out(image).attributes_of(op);
  const Kernel convolution = part.bias({s.convolution.o}).kernel();
  const Kernel function = activation(s, dtype, RT_OP_ACTIVATION, 1);
  const Kernel pool =
      pooling(s, dtype, s.average ? RT_OP_AVG_POOL2D : RT_OP_MAX_POOL2D, image, s.result());
  const Saved saved = saved_of(s, dtype);
  Kernel kernel;
  kernel.workspace_bytes = std::max(convolution.workspace_bytes, pool.workspace_bytes);
  kernel.saved_bytes = saved.bytes;
  kernel.run = [=](const Buffers& b) {
    void* argument = at(b.saved, saved.argument);
    void* value = at(b.saved, saved.value);
    run(convolution, {b.inputs[0], b.inputs[1], b.inputs[2]}, {argument}, b.workspace);
    run(function, {argument}, {value}, b.workspace);
    run(pool, {value}, {b.outputs[0]}, b.workspace, at(b.saved, saved.winners));
  };
  return kernel;
}

// The workspace holds the gradient of v, and then what the parts need.
Kernel make_conv2d_pool2d_backward_weights(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  const ConvPoolShape s = rt::sdk::conv2d_pool2d_backward_weights_shape(op, dtype);
  const Dims image = s.convolution.result();
  const Kernel pool =
      pooling(s, dtype, s.average ? RT_OP_AVG_POOL2D_BACKWARD : RT_OP_MAX_POOL2D_BACKWARD,
              s.result(), image);
  const Kernel function = activation(s, dtype, RT_OP_ACTIVATION_BACKWARD, 2);
  Part part(RT_OP_CONV2D_BACKWARD_WEIGHTS, dtype);
  part.in(s.convolution.image()).in(image).out(s.convolution.weights()).out({s.convolution.o});
  const Kernel weights = part.attributes_of(op).kernel();
  const Saved saved = saved_of(s, dtype);
  const uint64_t begin = image_bytes(s, dtype);
  Kernel kernel;
  kernel.workspace_bytes = begin + std::max(pool.workspace_bytes, weights.workspace_bytes);
  kernel.reads_saved = saved.bytes;
  kernel.run = [=](const Buffers& b) {
    void* gradient = b.workspace;
    void* rest = at(b.workspace, begin);
    run(pool, {b.inputs[1]}, {gradient}, rest, at(b.saved, saved.winners));
    run(function, {gradient, at(b.saved, saved.argument)}, {gradient}, rest);
    run(weights, {b.inputs[0], gradient}, {b.outputs[0], b.outputs[1]}, rest);
  };
  return kernel;
}

}  // namespace backends::reference
