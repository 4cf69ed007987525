// Simulates cuDNN's graph API in host memory, as its documentation describes it, with sums in
// float64: descriptors store their attributes, and a launch computes the operations of the graph
// one after the other.
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "rt/sdk/float16.h"
#include "tests/doubles/cudart.h"

// A handle. It keeps the stream of the latest launch, and every call may use that stream.
struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using Sizes = std::array<int64_t, 4>;

struct Node {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<char>> attributes;

  bool has(int name) const { return attributes.count(name) > 0; }
  template <typename T>
  T get(int name, size_t i = 0) const {
    T value;
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    std::memcpy(bytes.data(), attributes.at(name).data() + i * bytes.size(), bytes.size());
    return value;
  }
  void keep(int name, int64_t value) {
    const auto* bytes = reinterpret_cast<const char*>(&value);
    attributes[name].assign(bytes, bytes + sizeof(value));
  }
  size_t bytes(int name) const { return attributes.at(name).size(); }
  const Node& node(int name, size_t i = 0) const { return *get<const Node*>(name, i); }
  Sizes sizes(int name) const { return get<Sizes>(name); }
};

size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

double load(const void* data, cudnnDataType_t type, int64_t i) {
  const auto bits = [&] { return static_cast<const uint16_t*>(data)[i]; };
  if (type == CUDNN_DATA_DOUBLE) return static_cast<const double*>(data)[i];
  if (type == CUDNN_DATA_INT32) return static_cast<const int32_t*>(data)[i];
  if (type == CUDNN_DATA_HALF) return static_cast<double>(rt::sdk::from_float16(bits()));
  if (type == CUDNN_DATA_BFLOAT16) return static_cast<double>(rt::sdk::from_bfloat16(bits()));
  return static_cast<double>(static_cast<const float*>(data)[i]);
}
void save(void* data, cudnnDataType_t type, int64_t i, double value) {
  const auto narrow = static_cast<float>(value);
  if (type == CUDNN_DATA_DOUBLE) static_cast<double*>(data)[i] = value;
  if (type == CUDNN_DATA_FLOAT) static_cast<float*>(data)[i] = narrow;
  if (type == CUDNN_DATA_HALF) static_cast<uint16_t*>(data)[i] = rt::sdk::to_float16(narrow);
  if (type == CUDNN_DATA_BFLOAT16) static_cast<uint16_t*>(data)[i] = rt::sdk::to_bfloat16(narrow);
}

double as_tf32(double x) {
  return static_cast<double>(
      std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(x)) & 0xffffe000u));
}

template <typename Body>
void for_each_index(const Sizes& dims, Body&& body) {
  for (int64_t a = 0; a < dims[0]; ++a)
    for (int64_t b = 0; b < dims[1]; ++b)
      for (int64_t c = 0; c < dims[2]; ++c)
        for (int64_t d = 0; d < dims[3]; ++d) body(Sizes{a, b, c, d});
}

int64_t place_of(const Sizes& i, const Sizes& strides) {
  return i[0] * strides[0] + i[1] * strides[1] + i[2] * strides[2] + i[3] * strides[3];
}

// The numbers of a tensor, in the order of memory.
struct Tensor {
  Sizes dims, strides;
  std::vector<double> values;
  // Dimensions of length 1 broadcast.
  double& at(Sizes i) {
    for (size_t k = 0; k < 4; ++k) i[k] = dims[k] == 1 ? 0 : i[k];
    return values[static_cast<size_t>(place_of(i, strides))];
  }
  // The same with an index into `of` dimensions, of which a dimension may be a multiple of this
  // tensor's: neighbours then share an element.
  double& shared_at(Sizes i, const Sizes& of) {
    for (size_t k = 0; k < 4; ++k) i[k] /= of[k] / dims[k];
    return at(i);
  }
};

class Run {
 public:
  // With `tensor_cores`, float32 operands of convolutions lose their lower 13 bits (TF32).
  Run(const Node& pack, bool tensor_cores) : tensor_cores_(tensor_cores) {
    const size_t count = pack.bytes(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) / 8;
    for (size_t i = 0; i < count; ++i) {
      memory_[pack.get<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i)] =
          pack.get<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
    }
  }
  void operator()(const Node& op) {
    switch (op.type) {
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return pointwise(op);
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return matmul(op);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduce(op);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return reshape(op);
      default:
        return convolve(op);
    }
  }

 private:
  static Tensor empty(const Node& d) {
    Tensor t{d.sizes(CUDNN_ATTR_TENSOR_DIMENSIONS), d.sizes(CUDNN_ATTR_TENSOR_STRIDES), {}};
    Sizes last = t.dims;
    for (int64_t& i : last) --i;
    t.values.resize(static_cast<size_t>(place_of(last, t.strides)) + 1);
    return t;
  }
  Tensor read(const Node& d) const {
    const auto id = d.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (d.has(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) return local_.at(id);
    Tensor t = empty(d);
    const auto type = d.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    const void* memory = memory_.at(id);
    for_each_index(t.dims,
                   [&](const Sizes& i) { t.at(i) = load(memory, type, place_of(i, t.strides)); });
    return t;
  }
  void write(const Node& d, Tensor t) {
    const auto id = d.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    const auto type = d.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    if (!d.has(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
      void* memory = memory_.at(id);
      for_each_index(t.dims,
                     [&](const Sizes& i) { save(memory, type, place_of(i, t.strides), t.at(i)); });
    }
    local_[id] = std::move(t);
  }

  static double apply(int32_t mode, double x, double b) {
    switch (mode) {
      case CUDNN_POINTWISE_ADD:
        return x + b;
      case CUDNN_POINTWISE_SUB:
        return x - b;
      case CUDNN_POINTWISE_MUL:
        return x * b;
      case CUDNN_POINTWISE_DIV:
        return x / b;
      case CUDNN_POINTWISE_EXP:
        return std::exp(x);
      case CUDNN_POINTWISE_LOG:
        return std::log(x);
      case CUDNN_POINTWISE_RELU_FWD:
        return x > 0 ? x : 0;  // of NaN, too
      case CUDNN_POINTWISE_CMP_GE:
        return x >= b ? 1 : 0;
      case CUDNN_POINTWISE_CMP_GT:
        return x > b ? 1 : 0;
      default:
        return NAN;
    }
  }
  void pointwise(const Node& op) {
    const Node& how = op.node(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = how.get<int32_t>(CUDNN_ATTR_POINTWISE_MODE);
    const auto operand = [&](int name) { return op.has(name) ? read(op.node(name)) : Tensor{}; };
    Tensor x = operand(CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
           b = operand(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
           t = operand(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    const Node& result = op.node(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    Tensor y = empty(result);
    for_each_index(y.dims, [&](const Sizes& i) {
      if (mode == CUDNN_POINTWISE_GEN_INDEX) {
        y.at(i) = static_cast<double>(
            i[static_cast<size_t>(how.get<int64_t>(CUDNN_ATTR_POINTWISE_AXIS))]);
      } else if (mode == CUDNN_POINTWISE_BINARY_SELECT) {
        y.at(i) = t.at(i) != 0 ? x.at(i) : b.at(i);
      } else {
        y.at(i) = apply(mode, x.at(i), b.values.empty() ? 0 : b.at(i));
      }
    });
    write(result, std::move(y));
  }
  void matmul(const Node& op) {
    Tensor a = read(op.node(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
           b = read(op.node(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    const Node& result = op.node(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    Tensor c = empty(result);
    for_each_index(c.dims, [&](const Sizes& i) {
      double sum = 0;
      for (int64_t k = 0; k < a.dims[3]; ++k) {
        const int64_t head = i[1] / (c.dims[1] / b.dims[1]);
        sum += a.at({i[0], i[1], i[2], k}) * b.at({i[0], head, k, i[3]});
      }
      c.at(i) = sum;
    });
    write(result, std::move(c));
  }
  void reduce(const Node& op) {
    const bool largest =
        op.node(CUDNN_ATTR_OPERATION_REDUCTION_DESC).get<int32_t>(CUDNN_ATTR_REDUCTION_OPERATOR) ==
        CUDNN_REDUCE_TENSOR_MAX;
    Tensor x = read(op.node(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    const Node& result = op.node(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    Tensor y = empty(result);
    for_each_index(y.dims, [&](const Sizes& i) { y.at(i) = largest ? -INFINITY : 0; });
    for_each_index(x.dims, [&](const Sizes& i) {
      double& to = y.shared_at(i, x.dims);
      to = largest ? std::max(to, x.at(i)) : to + x.at(i);
    });
    write(result, std::move(y));
  }
  // The same memory with other dimensions and strides.
  void reshape(const Node& op) {
    const Node& result = op.node(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    Tensor y = empty(result);
    y.values = read(op.node(CUDNN_ATTR_OPERATION_RESHAPE_XDESC)).values;
    write(result, std::move(y));
  }

  // Attribute numbers of a convolution's direction: window, image, weights, result, and which of
  // them is the output.
  struct Names {
    int window, image, weights, result, made;
  };
  static Names names_of(const Node& op) {
    if (op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
      return {702, 704, 703, 705, 705};  // CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_*
    }
    if (op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
      return {708, 710, 709, 711, 710};  // _BWD_DATA_*
    }
    return {714, 716, 715, 717, 715};  // _BWD_FILTER_*
  }
  void convolve(const Node& op) {
    const Names names = names_of(op);
    const auto operand = [&](int name) {
      const Node& d = op.node(name);
      Tensor t = name == names.made ? empty(d) : read(d);
      const bool narrows =
          tensor_cores_ && d.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_FLOAT;
      if (narrows) std::transform(t.values.begin(), t.values.end(), t.values.begin(), as_tf32);
      return t;
    };
    Tensor x = operand(names.image), w = operand(names.weights), y = operand(names.result);
    const Node& window = op.node(names.window);
    using Pair = std::array<int64_t, 2>;
    const auto stride = window.get<Pair>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
               padding = window.get<Pair>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
               dilation = window.get<Pair>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
    const int64_t of_group = w.dims[1], groups = x.dims[1] / of_group;
    Tensor& made = names.made == names.image ? x : names.made == names.weights ? w : y;
    for_each_index(made.dims, [&](const Sizes& i) { made.at(i) = 0; });
    for_each_index(y.dims, [&](const Sizes& i) {
      for_each_index({1, of_group, w.dims[2], w.dims[3]}, [&](const Sizes& k) {
        const auto place = [&](size_t axis) {
          return i[axis + 2] * stride[axis] - padding[axis] + k[axis + 2] * dilation[axis];
        };
        const int64_t h = place(0), v = place(1);
        if (h < 0 || v < 0 || h >= x.dims[2] || v >= x.dims[3]) return;
        const int64_t channel = i[1] / (y.dims[1] / groups) * of_group + k[1];
        double &xi = x.at({i[0], channel, h, v}), &wi = w.at({i[1], k[1], k[2], k[3]}),
               &yi = y.at(i);
        if (&made == &x) xi += wi * yi;
        if (&made == &w) wi += xi * yi;
        if (&made == &y) yi += xi * wi;
      });
    });
    write(op.node(names.made), made);
  }

  bool tensor_cores_;
  std::map<int64_t, void*> memory_;
  std::map<int64_t, Tensor> local_;
};

// Attributes that only this simulation has: the graph and the engine of a configuration.
constexpr int kGraphOf = -1, kEngineOf = -2;
constexpr int64_t kExact = 7, kTensorCores = 8;  // engines
Node& node_of(cudnnBackendDescriptor_t d) { return *static_cast<Node*>(d); }

const Node& graph_of(const Node& plan) {
  return plan.node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).node(kGraphOf);
}
// The bytes of workspace that the plan of a graph needs: 64, and for attention (the only graphs
// with products of matrices) two for each element of a t x t matrix.
int64_t workspace_of(const Node& graph) {
  const size_t count = graph.bytes(CUDNN_ATTR_OPERATIONGRAPH_OPS) / 8;
  int64_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const Node& op = graph.node(CUDNN_ATTR_OPERATIONGRAPH_OPS, i);
    if (op.type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) continue;
    const Sizes dims =
        op.node(CUDNN_ATTR_OPERATION_MATMUL_CDESC).sizes(CUDNN_ATTR_TENSOR_DIMENSIONS);
    if (dims[2] == dims[3]) largest = std::max(largest, dims[0] * dims[1] * dims[2] * dims[3]);
  }
  return 64 + 2 * largest;
}

template <typename T>
cudnnStatus_t answer(int64_t* count, void* values, T value) {
  *count = 1;
  std::memcpy(values, &value, sizeof(value));
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  expect_stream(handle->stream, "cudnnDestroy");
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  expect_stream(handle->stream, "cudnnSetStream, with the former stream,");
  expect_stream(stream, "cudnnSetStream");
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the test double"; }

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Node{type, {}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &node_of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  const auto* bytes = static_cast<const char*>(values);
  node_of(descriptor)
      .attributes[name]
      .assign(bytes, bytes + static_cast<size_t>(count) * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}

// The double offers two engines; only the first of them uses tensor cores.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t, int64_t* count,
                                       void* values) {
  const Node& node = node_of(descriptor);
  *count = 0;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    if (node.get<int32_t>(CUDNN_ATTR_ENGINEHEUR_MODE) != CUDNN_HEUR_MODE_A)
      return CUDNN_STATUS_SUCCESS;
    for (const int64_t engine : {kTensorCores, kExact}) {
      Node& made = *static_cast<Node**>(values)[(*count)++];
      made.attributes[kGraphOf] = node.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      made.keep(kEngineOf, engine);
    }
  }
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    *count = 1;
    static_cast<Node**>(values)[0]->keep(kEngineOf, node.get<int64_t>(kEngineOf));
  }
  if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && node.get<int64_t>(kEngineOf) == kTensorCores)
    return answer(count, values, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX)
    return answer(count, values, node.get<int64_t>(kEngineOf));
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
    return answer(count, values, workspace_of(graph_of(node)));
  return CUDNN_STATUS_SUCCESS;
}

// Overwrites the whole workspace, as the library may.
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  expect_stream(handle->stream, "cudnnBackendExecute");
  const Node& configuration = node_of(plan).node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (handle->stream != nullptr) ++handle->stream->launches;
  const Node& graph = graph_of(node_of(plan));
  std::memset(node_of(pack).get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE), 0xff,
              static_cast<size_t>(workspace_of(graph)));
  Run run(node_of(pack), configuration.get<int64_t>(kEngineOf) == kTensorCores);
  const size_t count = graph.bytes(CUDNN_ATTR_OPERATIONGRAPH_OPS) / 8;
  for (size_t i = 0; i < count; ++i) run(graph.node(CUDNN_ATTR_OPERATIONGRAPH_OPS, i));
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
