// cuDNN's graph API. Everything is a descriptor with attributes, which is finalized before it is
// used. Source: "cuDNN graph API" (cudnn_graph.h), NVIDIA.
#ifndef BACKENDS_CUDA_CUDNN_GRAPH_H_
#define BACKENDS_CUDA_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <string>
#include <utility>
#include <vector>

#include "backends/gpu/library.h"

namespace backends::cuda {

// The functions of the library that are used, looked up at run time. The constructor throws as
// gpu::Library::find does.
struct CudnnFunctions {
  explicit CudnnFunctions(const gpu::Library& library);
  // Throws RT_ERROR_DEVICE with the library's text; `what` says what was tried.
  void check(cudnnStatus_t status, const char* what) const;

  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) set;
  decltype(&cudnnBackendGetAttribute) get;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
};

// Owns one descriptor. Movable. Its functions throw what CudnnFunctions::check throws.
class Descriptor {
 public:
  Descriptor(const CudnnFunctions& call, cudnnBackendDescriptorType_t type) : call_(&call) {
    call.check(call.create_descriptor(type, &descriptor_), "create a descriptor");
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) call_->destroy_descriptor(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept
      : call_(other.call_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  // Sets an attribute; returns *this. An array, one value, an array of integers, or another
  // descriptor.
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values) {
    call_->check(call_->set(descriptor_, name, type, count, values),
                 ("set attribute " + std::to_string(name)).c_str());
    return *this;
  }
  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  const T& value) {
    return set(name, type, 1, &value);
  }
  template <typename Array>
  Descriptor& set_integers(cudnnBackendAttributeName_t name, const Array& values) {
    return set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
  }

  // The values of an attribute, at most `most`.
  template <typename T>
  std::vector<T> values(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        int64_t most) const {
    std::vector<T> found(static_cast<size_t>(most));
    int64_t count = 0;
    call_->check(call_->get(descriptor_, name, type, most, &count, found.data()),
                 ("read attribute " + std::to_string(name)).c_str());
    found.resize(static_cast<size_t>(std::min(count, most)));
    return found;
  }
  // Fills `into`, which holds descriptors of the right type, with the values of an attribute.
  // Returns how many there were.
  size_t read(cudnnBackendAttributeName_t name, std::vector<Descriptor>& into) const {
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const Descriptor& d : into) raw.push_back(d.descriptor_);
    int64_t count = 0;
    call_->check(call_->get(descriptor_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                            static_cast<int64_t>(raw.size()), &count, raw.data()),
                 ("read attribute " + std::to_string(name)).c_str());
    return std::min(static_cast<size_t>(count), raw.size());
  }

  // Returns false if the library does not support what the attributes say. The reason is lost.
  bool try_finalize() { return call_->finalize(descriptor_) == CUDNN_STATUS_SUCCESS; }
  // Makes the descriptor final; throws if the library does not support what the attributes say.
  Descriptor& finalize() {
    call_->check(call_->finalize(descriptor_), "finalize a descriptor");
    return *this;
  }

 private:
  const CudnnFunctions* call_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace backends::cuda

#endif  // BACKENDS_CUDA_CUDNN_GRAPH_H_
