// A tensor that lives on a device, with the device semantics of PyTorch:
//
//   runtime::Context context;  // finds the plugins
//   if (context.device_count("cuda") > 0) {
//     auto a = runtime::Tensor::from_vector<float>(context, {1, 2, 3, 4}, {2, 2}, "cuda:0");
//     auto b = runtime::Tensor::full(context, {2}, -5.0, "cuda:0");
//     auto c = relu(matmul(a, a) + b);  // runs on cuda:0, stays there
//     std::vector<float> values = c.cpu().to_vector<float>();  // {2, 5, 10, 17}
//   }
#ifndef RUNTIME_TENSOR_TENSOR_H_
#define RUNTIME_TENSOR_TENSOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/tensor/context.h"

namespace runtime {

namespace detail {
class TensorStorage;
class TensorOps;
}  // namespace detail

// Element types. Equivalent to: torch.float32, torch.float64.
enum class Dtype { kFloat32, kFloat64 };
std::string to_string(Dtype dtype);  // "float32"

// Dimensions, row-major; {} is a scalar with one element.
using Shape = std::vector<int64_t>;

// A value: no operation changes a tensor, and copies share its memory. Results are on the device of
// the operands and have their type. Operations are queued on the device in call order and do not
// wait; to_vector, item and moves to another device do. Any thread may use any tensor.
//
// Errors are runtime::DeviceError: an unknown device (the message lists the existing ones),
// operands on two devices, of two types or of shapes that do not fit, an operation that the device
// lacks, not enough memory.
class Tensor {
 public:
  // Copies row-major values of the host to the device. T is float or double and sets the type.
  template <typename T>
  static Tensor from_vector(const Context& context, const std::vector<T>& values,
                            const Shape& shape, const std::string& device = "cpu");
  // A tensor with every element 0, or `value`.
  static Tensor zeros(const Context& context, const Shape& shape, const std::string& device = "cpu",
                      Dtype dtype = Dtype::kFloat32);
  static Tensor full(const Context& context, const Shape& shape, double value,
                     const std::string& device = "cpu", Dtype dtype = Dtype::kFloat32);

  const Shape& shape() const { return shape_; }
  Dtype dtype() const { return dtype_; }
  int64_t size() const;        // number of elements
  std::string device() const;  // "cuda:0"

  // The tensor on another device: a copy, or the same memory if the tensor is there already.
  Tensor to(const std::string& device) const;
  // Equivalent to to("cpu"). If there is no plugin of that name, the error says so.
  Tensor cpu() const;
  bool shares_memory_with(const Tensor& other) const { return storage_ == other.storage_; }

  // The values in host memory, wherever the tensor is. T must be the tensor's type.
  template <typename T>
  std::vector<T> to_vector() const;
  double item() const;  // the value of a tensor with one element

  // The same elements in another shape with as many elements; shares memory.
  Tensor reshape(const Shape& shape) const;

  // Reductions over `axes` (negative: counted from the last axis; empty: over all axes). These axes
  // are left out of the result, or kept with length 1.
  Tensor sum(const std::vector<int>& axes = {}, bool keep_dims = false) const;
  Tensor mean(const std::vector<int>& axes = {}, bool keep_dims = false) const;
  Tensor max(const std::vector<int>& axes = {}, bool keep_dims = false) const;

 private:
  friend class detail::TensorOps;
  Tensor(std::shared_ptr<detail::TensorStorage> storage, Shape shape, Dtype dtype);

  std::shared_ptr<detail::TensorStorage> storage_;
  Shape shape_;
  Dtype dtype_;
};

// Elementwise; shapes are broadcast as in numpy.
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator-(const Tensor& a);

// a [..., M, K], b [..., K, N] with the same leading dimensions, or [K, N] -> [..., M, N]
Tensor matmul(const Tensor& a, const Tensor& b);

// Elementwise activations. Equivalent to: the functions of these names in torch and
// torch.nn.functional.
Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x);  // x Phi(x), by erf
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);

// Over the last dimension.
Tensor softmax(const Tensor& x);
Tensor log_softmax(const Tensor& x);

}  // namespace runtime

#endif  // RUNTIME_TENSOR_TENSOR_H_
