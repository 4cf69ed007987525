// The table rt.capture, by graphs of CUDA or HIP.
#include "rt/capture.h"

#include <memory>

#include "backends/gpu/objects.h"

#if !defined(__HIP_CPU_RT__)  // HIP-CPU has no graphs

struct rt_recording {
  rt_device* device;
  GPU(GraphExec_t) graph;
};

namespace backends::gpu {

using rt::sdk::guard;

namespace {

struct Graph {
  GPU(Graph_t) graph = nullptr;
  ~Graph() {
    if (graph != nullptr) static_cast<void>(GPU(GraphDestroy)(graph));
  }
};

// Other threads (ranks, the loader) continue to allocate during a capture, so only the calling
// thread is held to the rules of capturing.
rt_status begin(rt_stream* stream, rt_error* error) {
  return guard(error, [&] {
    use(*stream->device);
    check(GPU(StreamBeginCapture)(stream->native(), GPU(StreamCaptureModeThreadLocal)),
          "begin to record a stream");
  });
}

rt_status end(rt_stream* stream, rt_recording** recording, rt_error* error) {
  return guard(error, [&] {
    use(*stream->device);
    Graph graph;
    check(GPU(StreamEndCapture)(stream->native(), &graph.graph), "end the recording of a stream");
    if (recording == nullptr) return;
    auto made = std::make_unique<rt_recording>(stream->device, nullptr);
    check(GPU(GraphInstantiateWithFlags)(&made->graph, graph.graph, 0), "instantiate a graph");
    *recording = made.release();
  });
}

rt_status replay(rt_recording* recording, rt_stream* stream, rt_error* error) {
  return guard(error, [&] {
    use(*stream->device);
    check(GPU(GraphLaunch)(recording->graph, stream->native()), "launch a graph");
  });
}

// Synchronizes the whole device, because the stream of the last replay may already be destroyed.
// Recordings are destroyed rarely.
void destroy(rt_recording* recording) {
  static_cast<void>(GPU(SetDevice)(recording->device->gpu.index));
  static_cast<void>(GPU(DeviceSynchronize)());
  static_cast<void>(GPU(GraphExecDestroy)(recording->graph));
  delete recording;
}

}  // namespace

const rt_capture_api* capture_api() {
  static const rt_capture_api api = {
      sizeof(rt_capture_api), RT_CAPTURE_API_VERSION, begin, end, replay, destroy};
  return &api;
}

}  // namespace backends::gpu

#else

namespace backends::gpu {
const rt_capture_api* capture_api() { return nullptr; }
}  // namespace backends::gpu

#endif
