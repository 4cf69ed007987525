// Measures the limits of the machine with the vendor's libraries alone, without any code of this
// project: bandwidth of copies, time of a node of a recorded graph, speed of large products. Prints
// one JSON object.
//
//   gpu_limits [--bytes N] [--side N] [--seconds S]
//
// N bytes of a copy, side of a square product, seconds for each measurement.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Sizes {
  size_t bytes = size_t{4} << 30;
  uint64_t side = 8192;
  double seconds = 1;
};

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}
void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": cuBLASLt status " + std::to_string(status));
}

class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes) { check(cudaMalloc(&data_, bytes), "cudaMalloc"); }
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

class PinnedMemory {
 public:
  explicit PinnedMemory(size_t bytes) { check(cudaMallocHost(&data_, bytes), "cudaMallocHost"); }
  ~PinnedMemory() { cudaFreeHost(data_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

// The stream on which everything runs, with a clock on the device.
class Queue {
 public:
  Queue() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~Queue() {
    cudaEventDestroy(end_);
    cudaEventDestroy(begin_);
    cudaStreamDestroy(stream_);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  cudaStream_t stream() const { return stream_; }

  // Median seconds of one run of `work`, by the device's clock: three warm-up runs, then at least
  // five.
  double time(double seconds, const std::function<void()>& work) const {
    for (int i = 0; i < 3; ++i) work();
    check(cudaStreamSynchronize(stream_), "warming up");
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    std::vector<double> times;
    while (times.size() < 5 || (times.size() < 1000 && Clock::now() < end)) {
      check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
      work();
      check(cudaEventRecord(end_, stream_), "cudaEventRecord");
      check(cudaEventSynchronize(end_), "cudaEventSynchronize");
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
      times.push_back(static_cast<double>(milliseconds) / 1e3);
    }
    std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2),
                     times.end());
    return times[times.size() / 2];
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

void copy(const Queue& queue, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  check(cudaMemcpyAsync(to, from, bytes, kind, queue.stream()), "cudaMemcpyAsync");
}

// Bytes that a copy within the device reads and writes in a second.
double copy_rate(const Queue& queue, const Sizes& sizes) {
  const DeviceMemory from(sizes.bytes), to(sizes.bytes);
  check(cudaMemsetAsync(from.get(), 1, sizes.bytes, queue.stream()), "cudaMemsetAsync");
  const double seconds = queue.time(sizes.seconds, [&] {
    copy(queue, to.get(), from.get(), sizes.bytes, cudaMemcpyDeviceToDevice);
  });
  return 2 * static_cast<double>(sizes.bytes) / seconds;
}

// Bytes copied in a second between pinned host memory and the device.
double host_rate(const Queue& queue, const Sizes& sizes, bool to_device) {
  const size_t bytes = std::max<size_t>(sizes.bytes / 16, 1);
  const PinnedMemory host(bytes);
  const DeviceMemory device(bytes);
  std::memset(host.get(), 1, bytes);
  const double seconds = queue.time(sizes.seconds / 4, [&] {
    if (to_device) copy(queue, device.get(), host.get(), bytes, cudaMemcpyHostToDevice);
    if (!to_device) copy(queue, host.get(), device.get(), bytes, cudaMemcpyDeviceToHost);
  });
  return static_cast<double>(bytes) / seconds;
}

// Seconds for each of many small nodes of a graph, each of which depends on the one before it.
double node_time(const Queue& queue, const Sizes& sizes) {
  constexpr int kNodes = 1000;
  const DeviceMemory memory(sizeof(int));
  check(cudaStreamBeginCapture(queue.stream(), cudaStreamCaptureModeThreadLocal), "recording");
  for (int i = 0; i < kNodes; ++i) {
    check(cudaMemsetAsync(memory.get(), i % 2, sizeof(int), queue.stream()), "recording a fill");
  }
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(queue.stream(), &graph), "ending the recording");
  cudaGraphExec_t recording = nullptr;
  check(cudaGraphInstantiateWithFlags(&recording, graph, 0), "cudaGraphInstantiate");
  const double seconds = queue.time(sizes.seconds / 4, [&] {
    check(cudaGraphLaunch(recording, queue.stream()), "cudaGraphLaunch");
  });
  cudaGraphExecDestroy(recording);
  cudaGraphDestroy(graph);
  return seconds / kNodes;
}

// cuBLASLt, loaded in the same way as by the plugin.
class Blas {
 public:
  explicit Blas(const char* name) : library_(dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    find("cublasLtCreate", create);
    find("cublasLtMatmulDescCreate", create_description);
    find("cublasLtMatmulDescSetAttribute", set_description);
    find("cublasLtMatrixLayoutCreate", create_layout);
    find("cublasLtMatmulPreferenceCreate", create_preference);
    find("cublasLtMatmulPreferenceSetAttribute", set_preference);
    find("cublasLtMatmulAlgoGetHeuristic", heuristic);
    find("cublasLtMatmul", matmul);
    check(create(&handle), "cublasLtCreate");
  }

  // These are never freed: the program ends soon.
  cublasLtHandle_t handle = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_description = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_description = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;

 private:
  template <typename Function>
  void find(const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, symbol));
    if (function == nullptr) throw std::runtime_error(std::string(symbol) + " is missing");
  }
  void* library_;
};

// One kind of product: C = A^T B, with square matrices of `type`.
struct Kind {
  const char* name;
  cudaDataType_t type;
  cublasComputeType_t compute;
};
constexpr Kind kKinds[] = {{"bf16", CUDA_R_16BF, CUBLAS_COMPUTE_32F},
                           {"tf32", CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
                           {"float32", CUDA_R_32F, CUBLAS_COMPUTE_32F}};

// Fills a matrix with numbers uniform in [-1, 1): products of zeros take less power and run faster
// than real ones.
void fill(const Queue& queue, void* to, cudaDataType_t type, uint64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint16_t> words(count * (type == CUDA_R_32F ? 2 : 1));
  const auto number = [&] { return static_cast<float>(random() >> 8) / float{1 << 23} - 1; };
  for (uint64_t i = 0; i < count; ++i) {
    const float value = number();
    if (type == CUDA_R_32F) std::memcpy(&words[2 * i], &value, sizeof(value));
    // The upper half of a float32 is a bfloat16.
    if (type != CUDA_R_32F) std::memcpy(&words[i], reinterpret_cast<const char*>(&value) + 2, 2);
  }
  copy(queue, to, words.data(), words.size() * 2, cudaMemcpyHostToDevice);
  check(cudaStreamSynchronize(queue.stream()), "filling a matrix");
}

constexpr size_t kWorkspace = size_t{64} << 20;

// The description of one product for cuBLASLt, and the algorithms that its heuristic prefers.
struct Product {
  Product(const Blas& blas, const Kind& kind, uint64_t n) {
    check(blas.create_description(&description, kind.compute, CUDA_R_32F), "a product");
    const int32_t transposed = CUBLAS_OP_T;
    check(blas.set_description(description, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                               sizeof(transposed)),
          "a transposition");
    check(blas.create_layout(&matrix, kind.type, n, n, static_cast<int64_t>(n)), "a matrix");
    cublasLtMatmulPreference_t preference = nullptr;
    check(blas.create_preference(&preference), "a preference");
    check(blas.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                              sizeof(kWorkspace)),
          "the size of the workspace");
    int found = 0;
    algorithms.resize(4);
    check(blas.heuristic(blas.handle, description, matrix, matrix, matrix, matrix, preference,
                         static_cast<int>(algorithms.size()), algorithms.data(), &found),
          "the choice of an algorithm");
    if (found == 0) throw std::runtime_error(std::string("no algorithm for ") + kind.name);
    algorithms.resize(static_cast<size_t>(found));
  }
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t matrix = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms;
};

// Floating-point operations in a second, with the fastest algorithm.
double product_rate(const Queue& queue, const Sizes& sizes, const Blas& blas, const Kind& kind) {
  const uint64_t count = sizes.side * sizes.side, element = kind.type == CUDA_R_32F ? 4 : 2;
  const DeviceMemory a(count * element), b(count * element), c(count * element),
      workspace(kWorkspace);
  fill(queue, a.get(), kind.type, count, 1);
  fill(queue, b.get(), kind.type, count, 2);
  const Product product(blas, kind, sizes.side);
  const float one = 1, zero = 0;
  double best = 0;
  for (const auto& algorithm : product.algorithms) {
    const double seconds = queue.time(sizes.seconds / 4, [&] {
      check(blas.matmul(blas.handle, product.description, &one, a.get(), product.matrix, b.get(),
                        product.matrix, &zero, c.get(), product.matrix, c.get(), product.matrix,
                        &algorithm.algo, workspace.get(), kWorkspace, queue.stream()),
            "cublasLtMatmul");
    });
    best = std::max(best, 2 * static_cast<double>(count * sizes.side) / seconds);
  }
  return best;
}

Sizes parse(int count, char** words) {
  Sizes sizes;
  for (int i = 1; i < count; i += 2) {
    const std::string name = words[i];
    const double value = i + 1 < count ? std::atof(words[i + 1]) : 0;
    if (value <= 0) throw std::runtime_error(name + " needs a number above 0");
    if (name == "--bytes") {
      sizes.bytes = static_cast<size_t>(value);
    } else if (name == "--side") {
      sizes.side = static_cast<uint64_t>(value);
    } else if (name == "--seconds") {
      sizes.seconds = value;
    } else {
      throw std::runtime_error(name + " is unknown; expected --bytes, --side or --seconds");
    }
  }
  return sizes;
}

// `"name": value`
std::string field(const std::string& name, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return "\"" + name + "\": " + text;
}

// Measures everything and prints one line. If cuBLASLt is missing the line has no products, and an
// error follows.
void measure(const Sizes& sizes) {
  check(cudaSetDevice(0), "cudaSetDevice");
  const Queue queue;
  std::string line = field("copy_bytes_per_second", copy_rate(queue, sizes));
  line += ", " + field("to_device_bytes_per_second", host_rate(queue, sizes, true));
  line += ", " + field("to_host_bytes_per_second", host_rate(queue, sizes, false));
  line += ", " + field("graph_node_seconds", node_time(queue, sizes));
  std::string failure;
  try {
    const Blas blas(GPU_LIMITS_BLAS_LT);
    for (const Kind& kind : kKinds) {
      line += ", " + field(std::string(kind.name) + "_flops_per_second",
                           product_rate(queue, sizes, blas, kind));
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  std::printf("{%s, %s}\n", line.c_str(), field("side", static_cast<double>(sizes.side)).c_str());
  if (!failure.empty()) throw std::runtime_error(failure);
}

}  // namespace

int main(int count, char** words) try {
  measure(parse(count, words));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 3;
}
