// Stands in for the CUDA runtime: memory, streams, events and graphs on the processor, late if
// asked for.
#include "tests/doubles/cudart.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

struct CUevent_st {
  std::vector<Pending> calls;
  std::shared_ptr<Capture> capture;  // in which it was recorded
  CUstream_st* stream = nullptr;     // on which it was recorded in the capture
};

struct CUgraph_st {
  std::vector<std::function<void()>> work;
};
struct CUgraphExec_st : CUgraph_st {};

namespace {

bool is_set(const char* value) {
  const char* set = std::getenv("CUDART_DOUBLE");
  return set != nullptr && std::string(set) == value;
}

bool all_done(const std::vector<Pending>& calls) {
  for (const Pending& call : calls) {
    if (!*call) return false;
  }
  return true;
}

void wait_for(const std::vector<Pending>& calls) {
  while (!all_done(calls)) std::this_thread::yield();
}

std::vector<Pending> calls_of(cudaStream_t stream) {
  expect_stream(stream, "a call");
  const std::lock_guard lock(stream->mutex);
  return stream->calls;
}

// Runs the work now; during a capture, records it to run at each launch.
cudaError_t queue(cudaStream_t stream, std::function<void()> work) {
  ++stream->launches;
  if (stream->capture) {
    stream->record(std::move(work));
    return cudaSuccess;
  }
  wait_for(calls_of(stream));
  work();
  return cudaSuccess;
}

constexpr int kDevices = 2;
#if defined(CUDART_DOUBLE_IS_H100)  // the size of that device, for plans; nothing is computed on it
constexpr std::size_t kMemory = std::size_t{80} << 30;
constexpr int kMultiprocessors = 132;
#else
constexpr std::size_t kMemory = std::size_t{1} << 30;
constexpr int kMultiprocessors = 2;
#endif

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  if (is_set("no_device")) return cudaErrorNoDevice;
  if (is_set("old_driver")) return cudaErrorInsufficientDriver;
  *count = kDevices;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "Test double");
  properties->totalGlobalMem = kMemory;
  properties->multiProcessorCount = kMultiprocessors;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    default:
      return "an error of the test double";
  }
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  return device < kDevices ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  *address = bytes > kMemory ? nullptr : std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *address != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* address) {
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** address, std::size_t bytes) { return cudaMalloc(address, bytes); }
cudaError_t cudaFreeHost(void* address) { return cudaFree(address); }
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  *free_bytes = *total = kMemory;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<CUstream_st>> destroyed;
  expect_stream(stream, "cudaStreamDestroy");
  stream->destroyed = true;
  const std::lock_guard lock(mutex);
  destroyed.emplace_back(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  expect_stream(stream, "cudaStreamSynchronize");
  if (stream->capture) return cudaErrorStreamCaptureUnsupported;
  wait_for(calls_of(stream));
  return is_set("illegal_address") ? cudaErrorIllegalAddress : cudaSuccess;
}
// A stream that waits for an event of a capture takes part in the capture.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  expect_stream(stream, "cudaStreamWaitEvent");
  if (event->capture) {
    if (stream->capture && stream->capture != event->capture) return cudaErrorStreamCaptureMerge;
    if (!stream->capture) event->capture->streams.push_back(stream);
    stream->capture = event->capture;
    stream->open = true;
    event->stream->open = event->stream == event->capture->streams[0];
    return cudaSuccess;
  }
  if (stream->capture) return cudaErrorStreamCaptureIsolation;
  wait_for(event->calls);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return queue(stream, [=] { std::memcpy(to, from, bytes); });
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
  return queue(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memcpy(static_cast<char*>(to) + row * to_pitch,
                  static_cast<const char*>(from) + row * from_pitch, width);
    }
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return queue(stream, [=] { std::memset(to, value, bytes); });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->capture = stream->capture;
  event->stream = stream;
  event->calls = calls_of(stream);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event->capture) return cudaErrorCapturedEvent;
  return all_done(event->calls) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->capture) return cudaErrorCapturedEvent;
  wait_for(event->calls);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0.001f;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }  // work runs as soon as it is queued
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->capture) return cudaErrorIllegalState;
  stream->capture = std::make_shared<Capture>();
  stream->capture->streams = {stream};
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!stream->capture) return cudaErrorIllegalState;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->streams[0] != stream) return cudaErrorStreamCaptureUnmatched;
  bool joined = true;
  for (CUstream_st* member : capture->streams) {
    joined = joined && (member == stream || !member->open);
    member->capture.reset();
    member->open = false;
  }
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{std::move(capture->work)};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph,
                                          unsigned long long) {
  *made = new CUgraphExec_st{*graph};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return queue(stream, [work = graph->work] {
    for (const auto& step : work) step();
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
