// What the doubles of the CUDA runtime and of NCCL share: a stream knows the calls that have not
// completed on it.
#ifndef TESTS_DOUBLES_CUDART_H_
#define TESTS_DOUBLES_CUDART_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

// A call that completes later.
using Pending = std::shared_ptr<std::atomic<bool>>;

struct CUstream_st {
  std::mutex mutex;
  std::vector<Pending> calls;
  std::optional<std::vector<std::function<void()>>> capture;  // copies and fills since its begin
  void add(Pending call) {
    const std::lock_guard lock(mutex);
    calls.push_back(std::move(call));
  }
};

#endif  // TESTS_DOUBLES_CUDART_H_
