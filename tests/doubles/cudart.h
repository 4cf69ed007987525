// Shared by the doubles of the CUDA runtime and of NCCL: a stream keeps the calls that have not
// completed on it.
#ifndef TESTS_DOUBLES_CUDART_H_
#define TESTS_DOUBLES_CUDART_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

// The state of a call that completes later: true when it has.
using Pending = std::shared_ptr<std::atomic<bool>>;

// Work that is recorded. The calls on all streams of the capture are kept in the order in which
// they were queued, which is one of the orders that their events allow.
struct Capture {
  std::vector<std::function<void()>> work;
  std::vector<CUstream_st*> streams;  // the first is the one whose capture was begun
};

struct CUstream_st {
  // The memory of a stream is kept, so that the use of a destroyed stream is seen.
  std::atomic<bool> destroyed = false;
  std::mutex mutex;
  std::vector<Pending> calls;
  std::atomic<int64_t> launches{0};  // kernels, copies and fills that were queued so far
  std::shared_ptr<Capture> capture;  // null: work is not recorded
  bool open = false;  // has recorded work for which the first stream of the capture does not wait
  void record(std::function<void()> work) {
    capture->work.push_back(std::move(work));
    open = true;
  }
  void add(Pending call) {
    const std::lock_guard lock(mutex);
    calls.push_back(std::move(call));
  }
};

// Ends the process if the stream (nullptr: the default one) was destroyed.
inline void expect_stream(const CUstream_st* stream, const char* call) {
  if (stream == nullptr || !stream->destroyed) return;
  std::fprintf(stderr, "double: %s used a stream that was destroyed\n", call);
  std::abort();
}

#endif  // TESTS_DOUBLES_CUDART_H_
