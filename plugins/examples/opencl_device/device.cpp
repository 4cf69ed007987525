// Devices, their memory and their programs, streams and events.
#include "device.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "kernels_cl.h"
#include "rt/sdk/device_table.h"

using rt::sdk::copy_text;
using rt::sdk::Error;
using rt::sdk::format;

namespace {

// Why a device cannot be used; empty if it can.
std::string why_unusable(cl_device_id id) {
  if (id == nullptr)
    return "no platform of OpenCL with a device was found; install the driver of the device, or "
           "pocl-opencl-icd for the processor, and look at clinfo";
  int version[2] = {};
  const std::string offered = text(id, CL_DEVICE_VERSION);
  std::sscanf(offered.c_str(), "OpenCL %d.%d", &version[0], &version[1]);
  if (version[0] * 10 + version[1] < 12) return "has " + offered + "; expected 1.2 or newer";
  if (!info<cl_bool>(id, CL_DEVICE_AVAILABLE)) return "the driver says that it is not available";
  if (!info<cl_bool>(id, CL_DEVICE_COMPILER_AVAILABLE)) return "has no compiler for kernels";
  return info<cl_bool>(id, CL_DEVICE_ENDIAN_LITTLE) ? "" : "is not little-endian";
}

std::vector<cl_device_id> list_devices() {
  std::vector<cl_device_id> devices;
  cl_uint count = 0;
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) count = 0;
  std::vector<cl_platform_id> platforms(count);
  if (count > 0) check(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  for (cl_platform_id platform : platforms) {
    cl_device_id ids[64];
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 64, ids, &count) != CL_SUCCESS) continue;
    devices.insert(devices.end(), ids, ids + std::min<cl_uint>(count, 64));
  }
  if (devices.empty()) devices.push_back(nullptr);  // stands for the missing platform
  return devices;
}

uint64_t compute_dtypes(cl_device_id id) {
  const bool doubles = text(id, CL_DEVICE_EXTENSIONS).find("cl_khr_fp64") != std::string::npos;
  return RT_DTYPE_BIT(RT_FLOAT32) | (doubles ? RT_DTYPE_BIT(RT_FLOAT64) : 0);
}

}  // namespace

int32_t Devices::count() {
  std::call_once(once_, [&] { ids_ = list_devices(); });
  return static_cast<int32_t>(ids_.size());
}

rt_device_properties Devices::properties(int32_t index) {
  const cl_device_id id = ids_[index];
  rt_device_properties p{};
  const std::string unusable = why_unusable(id);
  copy_text(p.unusable_reason, unusable);
  p.flags = unusable.empty() ? RT_DEVICE_USABLE : 0;
  p.alignment = 64;
  copy_text(p.name, id == nullptr ? "OpenCL" : text(id, CL_DEVICE_NAME));
  // OpenCL 1.2 knows no address on a bus: the number tells devices of one name apart.
  copy_text(p.stable_id, format("%d %.55s", index, p.name));
  if (id == nullptr) return p;
  p.memory_bytes = info<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE);
  p.compute_dtypes = compute_dtypes(id);
  p.storage_dtypes = p.compute_dtypes | RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64) |
                     RT_DTYPE_BIT(RT_UINT8) | RT_DTYPE_BIT(RT_INT8);
  const uint64_t bits = info<cl_uint>(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN);
  p.alignment = std::max<uint64_t>(p.alignment, std::bit_ceil(bits / 8));
  p.largest_buffer = info<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  return p;
}

rt_device* Devices::open(int32_t index, const rt_device_options&) {
  const std::string unusable = why_unusable(ids_[index]);
  if (unusable.empty()) return new rt_device(ids_[index]);
  throw Error(RT_ERROR_UNAVAILABLE, "OpenCL: " + unusable, RT_SCOPE_DEVICE);
}

rt_device::rt_device(cl_device_id device)
    : id(device),
      dtypes(compute_dtypes(device)),
      context(
          make<Context>("clCreateContext", clCreateContext, nullptr, 1, &device, nullptr, nullptr)),
      transfers_(make<Queue>("clCreateCommandQueue", clCreateCommandQueue, context.get(), id, 0)) {}

void* rt_device::allocate(uint64_t bytes, int32_t kind) {
  rt::sdk::expect_free(bytes, memory_info().free_bytes,
                       info<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
  const bool host = kind == RT_MEMORY_PINNED_HOST;
  const cl_mem_flags flags = CL_MEM_READ_WRITE | (host ? CL_MEM_ALLOC_HOST_PTR : 0);
  auto buffer =
      make<Buffer>("clCreateBuffer", clCreateBuffer, context.get(), flags, bytes, nullptr);
  if (!host) return memory.add(std::move(buffer), bytes);
  cl_int code = CL_SUCCESS;
  void* const address =
      clEnqueueMapBuffer(transfers_.get(), buffer.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                         bytes, 0, nullptr, nullptr, &code);
  check(code, "clEnqueueMapBuffer");
  pinned.add_at(address, std::move(buffer), bytes);
  return address;
}

void rt_device::release(void* address, int32_t kind) {
  if (kind != RT_MEMORY_PINNED_HOST) {
    memory.remove(address);
  } else if (const Buffer buffer = pinned.remove(address); buffer.get() != nullptr) {
    clEnqueueUnmapMemObject(transfers_.get(), buffer.get(), address, 0, nullptr, nullptr);
    clFinish(transfers_.get());
  }
}

rt_memory_info rt_device::memory_info() const {
  return rt::sdk::own_memory_info(info<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE), memory.bytes());
}

cl_program rt_device::program(rt_dtype real) {
  const std::lock_guard lock(mutex_);
  Program& program = programs_[real];
  if (program.get() != nullptr) return program.get();
  const char* source = kKernels;
  auto built = make<Program>("clCreateProgramWithSource", clCreateProgramWithSource, context.get(),
                             1, &source, nullptr);
  const bool doubles = (dtypes & RT_DTYPE_BIT(RT_FLOAT64)) != 0;
  const std::string options =
      format("-cl-std=CL1.2 -DREAL=%s -DWIDE=%s", real == RT_FLOAT64 ? "double" : "float",
             doubles ? "double" : "float");
  const cl_int code = clBuildProgram(built.get(), 1, &id, options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) {
    std::string log(1 << 16, '\0');
    clGetProgramBuildInfo(built.get(), id, CL_PROGRAM_BUILD_LOG, log.size() - 1, log.data(),
                          nullptr);
    throw Error(RT_ERROR_DEVICE, format("the kernels do not compile for %s: %s",
                                        text(id, CL_DEVICE_NAME).c_str(), log.c_str()))
        .native("OpenCL", code);
  }
  program = std::move(built);
  return program.get();
}

rt_stream::rt_stream(rt_device& owner)
    : device(owner),
      queue(make<Queue>("clCreateCommandQueue", clCreateCommandQueue, owner.context.get(), owner.id,
                        CL_QUEUE_PROFILING_ENABLE)) {}

void rt_stream::synchronize() { check(clFinish(queue.get()), "clFinish"); }

// Memory of the host is read where it is if it is pinned, else from a copy of it.
void rt_stream::write(cl_mem to, uint64_t offset, const void* from, uint64_t bytes) {
  const bool pageable = !device.pinned.find(from);
  if (pageable) from = staging_.stage(from, bytes, std::mem_fn(&Event::is_complete));
  Event done;
  check(
      clEnqueueWriteBuffer(queue.get(), to, CL_FALSE, offset, bytes, from, 0, nullptr, done.out()),
      "clEnqueueWriteBuffer");
  if (pageable) staging_.hand_over(std::move(done));
}

void rt_stream::read(void* to, cl_mem from, uint64_t offset, uint64_t bytes) {
  check(clEnqueueReadBuffer(queue.get(), from, CL_FALSE, offset, bytes, to, 0, nullptr, nullptr),
        "clEnqueueReadBuffer");
}

void rt_stream::copy(void* destination, const void* source, uint64_t bytes) {
  const auto to = device.memory.find(destination), from = device.memory.find(source);
  if (to && from) {
    check(clEnqueueCopyBuffer(queue.get(), from.object.get(), to.object.get(), from.offset,
                              to.offset, bytes, 0, nullptr, nullptr),
          "clEnqueueCopyBuffer");
  } else if (to) {
    write(to.object.get(), to.offset, source, bytes);
  } else if (from) {
    read(destination, from.object.get(), from.offset, bytes);
  } else {  // OpenCL has no copy within host memory, so that a buffer of the device lies between
    const auto between = make<Buffer>("clCreateBuffer", clCreateBuffer, device.context.get(),
                                      CL_MEM_READ_WRITE, bytes, nullptr);
    write(between.get(), 0, source, bytes);
    read(destination, between.get(), 0, bytes);
  }
}

void rt_stream::fill(void* destination, int32_t value, uint64_t bytes) {
  const auto to = device.memory.find(destination);
  const auto byte = static_cast<cl_uchar>(value);
  if (!to) throw Error(RT_ERROR_INVALID_ARGUMENT, "fill: the address is not of this device");
  check(clEnqueueFillBuffer(queue.get(), to.object.get(), &byte, 1, to.offset, bytes, 0, nullptr,
                            nullptr),
        "clEnqueueFillBuffer");
}

// The queue is flushed, because other queues and threads wait for the marker.
Event rt_stream::mark() {
  Event marker;
  check(clEnqueueMarkerWithWaitList(queue.get(), 0, nullptr, marker.out()),
        "clEnqueueMarkerWithWaitList");
  check(clFlush(queue.get()), "clFlush");
  return marker;
}

void rt_stream::wait(const Event& event) {
  const cl_event marker = event.get();
  check(clEnqueueBarrierWithWaitList(queue.get(), 1, &marker, nullptr),
        "clEnqueueBarrierWithWaitList");
}

void Event::synchronize() const {
  const cl_event marker = get();
  check(clWaitForEvents(1, &marker), "clWaitForEvents");
}

bool Event::is_complete() const {
  cl_int status = CL_COMPLETE;
  if (get() != nullptr)
    check(
        clGetEventInfo(get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr),
        "clGetEventInfo");
  return status <= CL_COMPLETE;  // errors are negative
}

int64_t Event::nanoseconds() const {
  cl_ulong time = 0;
  check(clGetEventProfilingInfo(get(), CL_PROFILING_COMMAND_END, sizeof(time), &time, nullptr),
        "clGetEventProfilingInfo");
  return static_cast<int64_t>(time);
}
