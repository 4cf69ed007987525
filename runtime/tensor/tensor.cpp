// The operations of Tensor, each of which makes or finds a plan and launches it.
#include "runtime/tensor/tensor.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "plugins/host/error.h"
#include "rt/operations.h"
#include "runtime/error.h"
#include "runtime/tensor/device.h"

namespace runtime {
namespace {

using plugins::host::Attribute;
using plugins::host::Operation;

rt_dtype to_c(Dtype dtype) { return dtype == Dtype::kFloat32 ? RT_FLOAT32 : RT_FLOAT64; }
uint64_t bytes_of(Dtype dtype) { return dtype == Dtype::kFloat32 ? 4 : 8; }

template <typename T>
constexpr Dtype dtype_of() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  return std::is_same_v<T, float> ? Dtype::kFloat32 : Dtype::kFloat64;
}

// "[2, 3]"
std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (const int64_t dim : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

// The number of elements. Throws for shapes that no memory can hold.
int64_t count_of(const Shape& shape) {
  int64_t count = 1;
  if (shape.size() > RT_MAX_RANK) {
    throw DeviceError("shape " + text_of(shape) + " has " + std::to_string(shape.size()) +
                      " dimensions; expected at most " + std::to_string(RT_MAX_RANK));
  }
  for (const int64_t dim : shape) {
    if (dim < 0) {
      throw DeviceError("shape " + text_of(shape) + " has a negative dimension; expected >= 0");
    }
    if (__builtin_mul_overflow(count, dim, &count) || count > INT64_MAX / 8) {
      throw DeviceError("shape " + text_of(shape) + " has more elements than can be addressed");
    }
  }
  return count;
}

// Turns errors of plugins into the runtime's own DeviceError.
template <typename Body>
auto translated(Body&& body) {
  try {
    return body();
  } catch (const plugins::host::Error& error) {
    throw DeviceError(error.what());
  }
}

// Broadcasting as in numpy: dimensions are compared from the last one on, and 1 stretches.
Shape broadcast(const char* operation, const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 1; i <= result.size(); ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw DeviceError(std::string(operation) + ": shapes " + text_of(a) + " and " + text_of(b) +
                        " cannot be broadcast; counted from the last, dimensions must be equal or "
                        "1");
    }
    result[result.size() - i] = x == 1 ? y : x;
  }
  return result;
}

}  // namespace

namespace detail {

// Shared by the free functions and the members; has access to a tensor's private members.
class TensorOps {
 public:
  static Tensor empty(std::shared_ptr<TensorContext> context, TensorDevice& device,
                      const Shape& shape, Dtype dtype) {
    const uint64_t bytes = static_cast<uint64_t>(count_of(shape)) * bytes_of(dtype);
    if ((device.properties().storage_dtypes & RT_DTYPE_BIT(to_c(dtype))) == 0) {
      throw DeviceError(device.id() + " cannot hold " + to_string(dtype) +
                        "; use the other floating type or another device");
    }
    return {std::make_shared<TensorStorage>(std::move(context), device, bytes), shape, dtype};
  }

  static TensorStorage& storage(const Tensor& tensor) { return *tensor.storage_; }

  static Tensor with_shape(const Tensor& tensor, const Shape& shape) {
    return {tensor.storage_, shape, tensor.dtype_};
  }

  static uint64_t bytes(const Tensor& tensor) {
    return static_cast<uint64_t>(tensor.size()) * bytes_of(tensor.dtype());
  }

  // Runs an operation with one output, which has the type of the first operand.
  static Tensor run(const char* name, const std::vector<const Tensor*>& operands,
                    const Shape& shape, std::vector<Attribute> attributes = {}) {
    check_operands(name, operands);
    const Tensor& first = *operands[0];
    return translated([&] {
      TensorDevice& device = storage(first).device();
      Tensor result = empty(storage(first).context(), device, shape, first.dtype());
      if (result.size() == 0) return result;
      launch(name, operands, result, std::move(attributes));
      return result;
    });
  }

  static void launch(const char* name, const std::vector<const Tensor*>& operands,
                     const Tensor& result, std::vector<Attribute> attributes) {
    Operation operation;
    operation.name = name;
    operation.attributes = std::move(attributes);
    std::vector<const void*> inputs;
    for (const Tensor* operand : operands) {
      operation.inputs.push_back(
          plugins::host::make_tensor_desc(to_c(operand->dtype()), operand->shape()));
      inputs.push_back(storage(*operand).data());
    }
    operation.outputs = {plugins::host::make_tensor_desc(to_c(result.dtype()), result.shape())};
    storage(result).device().launch(operation, inputs, storage(result).data());
  }

 private:
  static void check_operands(const char* name, const std::vector<const Tensor*>& operands) {
    const Tensor& first = *operands[0];
    for (const Tensor* other : operands) {
      if (other->device() != first.device()) {
        throw DeviceError("expected all tensors on the same device, found " + first.device() +
                          " and " + other->device() + " (in " + name + "); move one with to()");
      }
      if (&storage(*other).device() != &storage(first).device()) {
        throw DeviceError(std::string(name) + ": the tensors on " + first.device() +
                          " belong to two Contexts; make all of them with one");
      }
      if (other->dtype() != first.dtype()) {
        throw DeviceError(std::string(name) + ": expected all tensors of the same type, found " +
                          to_string(first.dtype()) + " and " + to_string(other->dtype()));
      }
    }
  }
};

}  // namespace detail

using detail::TensorOps;

namespace {

Tensor binary(const char* name, const Tensor& a, const Tensor& b) {
  return TensorOps::run(name, {&a, &b}, broadcast(name, a.shape(), b.shape()));
}

Tensor scaled(const Tensor& x, double alpha, double beta) {
  return TensorOps::run(RT_OP_SCALE, {&x}, x.shape(),
                        {{RT_ATTR_ALPHA, alpha}, {RT_ATTR_BETA, beta}});
}

Tensor activation(const Tensor& x, int64_t function) {
  return TensorOps::run(RT_OP_ACTIVATION, {&x}, x.shape(), {{RT_ATTR_FUNCTION, function}});
}

Tensor over_last(const char* name, const Tensor& x) {
  if (x.shape().empty()) {
    throw DeviceError(std::string(name) + ": a scalar has no last dimension; expected at least 1");
  }
  return TensorOps::run(name, {&x}, x.shape());
}

// The axes as a mask of 1 << axis.
int64_t axes_mask(const std::vector<int>& axes, const Shape& shape) {
  const int rank = static_cast<int>(shape.size());
  if (axes.empty()) return (int64_t{1} << rank) - 1;
  int64_t mask = 0;
  for (const int axis : axes) {
    if (axis < -rank || axis >= rank) {
      throw DeviceError("axis " + std::to_string(axis) + " of a tensor of shape " + text_of(shape) +
                        "; expected " + std::to_string(-rank) + " to " + std::to_string(rank - 1));
    }
    mask |= int64_t{1} << (axis < 0 ? axis + rank : axis);
  }
  return mask;
}

Tensor reduce(const Tensor& x, int64_t function, const std::vector<int>& axes, bool keep_dims) {
  const int64_t mask = axes_mask(axes, x.shape());
  Shape shape;
  for (std::size_t i = 0; i < x.shape().size(); ++i) {
    const bool reduced = (mask >> i) & 1;
    if (!reduced) shape.push_back(x.shape()[i]);
    if (reduced && keep_dims) shape.push_back(1);
  }
  if (x.size() == 0) throw DeviceError("reduce: the tensor has no elements; expected at least 1");
  return TensorOps::run(RT_OP_REDUCE, {&x}, shape,
                        {{RT_ATTR_FUNCTION, function}, {RT_ATTR_AXES, mask}});
}

}  // namespace

std::string to_string(Dtype dtype) { return dtype == Dtype::kFloat32 ? "float32" : "float64"; }

Tensor::Tensor(std::shared_ptr<detail::TensorStorage> storage, Shape shape, Dtype dtype)
    : storage_(std::move(storage)), shape_(std::move(shape)), dtype_(dtype) {}

template <typename T>
Tensor Tensor::from_vector(const Context& context, const std::vector<T>& values, const Shape& shape,
                           const std::string& device) {
  if (count_of(shape) != static_cast<int64_t>(values.size())) {
    throw DeviceError("from_vector: " + std::to_string(values.size()) + " values for shape " +
                      text_of(shape) + "; expected " + std::to_string(count_of(shape)));
  }
  return translated([&] {
    detail::TensorDevice& target = context.state_->device(device);
    Tensor result = TensorOps::empty(context.state_, target, shape, dtype_of<T>());
    if (!values.empty()) {
      target.upload(result.storage_->data(), values.data(), TensorOps::bytes(result));
    }
    return result;
  });
}

template Tensor Tensor::from_vector(const Context&, const std::vector<float>&, const Shape&,
                                    const std::string&);
template Tensor Tensor::from_vector(const Context&, const std::vector<double>&, const Shape&,
                                    const std::string&);

Tensor Tensor::zeros(const Context& context, const Shape& shape, const std::string& device,
                     Dtype dtype) {
  return translated([&] {
    detail::TensorDevice& target = context.state_->device(device);
    Tensor result = TensorOps::empty(context.state_, target, shape, dtype);
    if (result.size() > 0) target.zero(result.storage_->data(), TensorOps::bytes(result));
    return result;
  });
}

Tensor Tensor::full(const Context& context, const Shape& shape, double value,
                    const std::string& device, Dtype dtype) {
  return translated([&] {
    detail::TensorDevice& target = context.state_->device(device);
    Tensor result = TensorOps::empty(context.state_, target, shape, dtype);
    if (result.size() > 0) {
      TensorOps::launch(RT_OP_FILL, {}, result, {{RT_ATTR_VALUE, value}});
    }
    return result;
  });
}

int64_t Tensor::size() const { return count_of(shape_); }
std::string Tensor::device() const { return storage_->device().id(); }

Tensor Tensor::to(const std::string& device) const {
  return translated([&] {
    detail::TensorDevice& target = storage_->context()->device(device);
    if (&target == &storage_->device()) return *this;
    Tensor result = TensorOps::empty(storage_->context(), target, shape_, dtype_);
    if (size() == 0) return result;
    std::vector<char> values(TensorOps::bytes(*this));
    storage_->device().download(values.data(), storage_->data(), values.size());
    target.upload(result.storage_->data(), values.data(), values.size());
    return result;
  });
}

Tensor Tensor::cpu() const {
  const auto& plugins = storage_->context()->registry().plugins();
  const auto is_cpu = [](const auto& plugin) { return plugin.name == "cpu"; };
  if (std::none_of(plugins.begin(), plugins.end(), is_cpu)) {
    throw DeviceError(
        "cpu(): there is no plugin named 'cpu'; read the values with to_vector(), or move the "
        "tensor to a device that exists with to()");
  }
  return to("cpu");
}

template <typename T>
std::vector<T> Tensor::to_vector() const {
  if (dtype_ != dtype_of<T>()) {
    throw DeviceError("to_vector: the tensor is " + to_string(dtype_) + ", asked for " +
                      to_string(dtype_of<T>()));
  }
  return translated([&] {
    std::vector<T> values(static_cast<std::size_t>(size()));
    if (!values.empty()) {
      storage_->device().download(values.data(), storage_->data(), TensorOps::bytes(*this));
    }
    return values;
  });
}

template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<double> Tensor::to_vector<double>() const;

double Tensor::item() const {
  if (size() != 1) {
    throw DeviceError("item: the tensor has shape " + text_of(shape_) +
                      "; expected one element. Use to_vector()");
  }
  return dtype_ == Dtype::kFloat32 ? static_cast<double>(to_vector<float>()[0])
                                   : to_vector<double>()[0];
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (count_of(shape) != size()) {
    throw DeviceError("reshape: " + text_of(shape_) + " has " + std::to_string(size()) +
                      " elements, " + text_of(shape) + " has " + std::to_string(count_of(shape)));
  }
  return TensorOps::with_shape(*this, shape);
}

Tensor Tensor::sum(const std::vector<int>& axes, bool keep_dims) const {
  return reduce(*this, RT_REDUCE_SUM, axes, keep_dims);
}
Tensor Tensor::mean(const std::vector<int>& axes, bool keep_dims) const {
  return reduce(*this, RT_REDUCE_MEAN, axes, keep_dims);
}
Tensor Tensor::max(const std::vector<int>& axes, bool keep_dims) const {
  return reduce(*this, RT_REDUCE_MAX, axes, keep_dims);
}

Tensor operator+(const Tensor& a, const Tensor& b) { return binary(RT_OP_ADD, a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return binary(RT_OP_SUBTRACT, a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return binary(RT_OP_MULTIPLY, a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return binary(RT_OP_DIVIDE, a, b); }
Tensor operator+(const Tensor& a, double b) { return scaled(a, 1.0, b); }
Tensor operator-(const Tensor& a, double b) { return scaled(a, 1.0, -b); }
Tensor operator*(const Tensor& a, double b) { return scaled(a, b, 0.0); }
Tensor operator/(const Tensor& a, double b) { return scaled(a, 1.0 / b, 0.0); }
Tensor operator+(double a, const Tensor& b) { return scaled(b, 1.0, a); }
Tensor operator-(double a, const Tensor& b) { return scaled(b, -1.0, a); }
Tensor operator*(double a, const Tensor& b) { return scaled(b, a, 0.0); }
Tensor operator-(const Tensor& a) { return scaled(a, -1.0, 0.0); }

Tensor matmul(const Tensor& a, const Tensor& b) {
  const Shape &x = a.shape(), &y = b.shape();
  const bool fits =
      x.size() >= 2 && y.size() >= 2 && x.back() == y[y.size() - 2] &&
      (y.size() == 2 || (y.size() == x.size() && std::equal(x.begin(), x.end() - 2, y.begin())));
  if (!fits) {
    throw DeviceError("matmul: shapes " + text_of(x) + " and " + text_of(y) +
                      "; expected [..., M, K] and [..., K, N] with the same leading dimensions, "
                      "or [K, N]");
  }
  if (x.back() == 0) throw DeviceError("matmul: K is 0; expected at least 1");
  Shape shape = x;
  shape.back() = y.back();
  return TensorOps::run(RT_OP_MATMUL, {&a, &b}, shape);
}

Tensor relu(const Tensor& x) { return activation(x, RT_ACTIVATION_RELU); }
Tensor gelu(const Tensor& x) { return activation(x, RT_ACTIVATION_GELU); }
Tensor tanh(const Tensor& x) { return activation(x, RT_ACTIVATION_TANH); }
Tensor sigmoid(const Tensor& x) { return activation(x, RT_ACTIVATION_SIGMOID); }

Tensor softmax(const Tensor& x) { return over_last(RT_OP_SOFTMAX, x); }
Tensor log_softmax(const Tensor& x) { return over_last(RT_OP_LOG_SOFTMAX, x); }

}  // namespace runtime
