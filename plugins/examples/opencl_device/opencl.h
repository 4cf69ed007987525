// The objects of OpenCL 1.2, owned, and its errors as exceptions. The library exports nothing but
// its entry, so that its names need no namespace.
#ifndef OPENCL_H_
#define OPENCL_H_

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>
#include <utility>

#include "rt/sdk/error.h"

// Throws Error with the code of OpenCL unless `code` is CL_SUCCESS. `what` is the function that
// returned it.
inline void check(cl_int code, const char* what) {
  if (code == CL_SUCCESS) return;
  const bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY;
  throw rt::sdk::Error(memory ? RT_ERROR_OUT_OF_MEMORY : RT_ERROR_DEVICE,
                       rt::sdk::format("%s failed with code %d of OpenCL", what, code))
      .native("OpenCL", code);
}

// Owns one reference to an object. A copy owns another one.
template <typename T, cl_int (*Retain)(T), cl_int (*Release)(T)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(T object) : object_(object) {}
  Owned(const Owned& other) : object_(other.object_) {
    if (object_ != nullptr) Retain(object_);
  }
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() {
    if (object_ != nullptr) Release(object_);
  }
  T get() const { return object_; }
  T* out() { return &object_; }  // of an empty object, for functions that write a new one

 private:
  T object_ = nullptr;
};
using Context = Owned<cl_context, clRetainContext, clReleaseContext>;
using Queue = Owned<cl_command_queue, clRetainCommandQueue, clReleaseCommandQueue>;
using Program = Owned<cl_program, clRetainProgram, clReleaseProgram>;
using Kernel = Owned<cl_kernel, clRetainKernel, clReleaseKernel>;
using Buffer = Owned<cl_mem, clRetainMemObject, clReleaseMemObject>;

// Calls a function that makes an object and writes its status into its last argument.
template <typename Object, typename Function, typename... Arguments>
Object make(const char* what, Function function, Arguments... arguments) {
  cl_int code = CL_SUCCESS;
  Object object(function(arguments..., &code));
  check(code, what);
  return object;
}

// A number, or a text, that OpenCL tells of a device.
template <typename T>
T info(cl_device_id device, cl_device_info name) {
  T value{};
  check(clGetDeviceInfo(device, name, sizeof(value), &value, nullptr), "clGetDeviceInfo");
  return value;
}
inline std::string text(cl_device_id device, cl_device_info name) {
  std::string value(4096, '\0');
  check(clGetDeviceInfo(device, name, value.size() - 1, value.data(), nullptr), "clGetDeviceInfo");
  value.resize(value.find('\0'));  // the last character is never written
  return value;
}

#endif  // OPENCL_H_
