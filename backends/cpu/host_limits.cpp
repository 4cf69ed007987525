// Tries, before oneDNN or libgomp would, whether memory and threads can still be had.
#include "backends/cpu/host_limits.h"

#include <omp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cctype>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "backends/cpu/system.h"
#include "rt/sdk/error.h"

namespace backends::cpu {
namespace {

using rt::sdk::Error;
using rt::sdk::format;

// Several times the memory that oneDNN takes for the code of a primitive and libgomp for a team of
// threads. A malloc arena of a new thread takes 64 MiB, but malloc works without one.
constexpr size_t kHeadroom = size_t{32} << 20;

double mib(double bytes) { return bytes / (1 << 20); }

// "unlimited" or, for example, "300 MiB".
std::string address_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return format("%.0f MiB", mib(static_cast<double>(limit.rlim_cur)));
}

// Bytes, read as libgomp reads them: a number followed by B, K, M or G, or by nothing for KiB. 0
// stands for the system's default.
size_t stack_size_of_openmp() {
  const char* text = std::getenv("OMP_STACKSIZE");
  if (text == nullptr) text = std::getenv("GOMP_STACKSIZE");
  if (text == nullptr) return 0;
  char* end = nullptr;
  const auto number = static_cast<size_t>(std::strtoull(text, &end, 10));
  while (std::isspace(static_cast<unsigned char>(*end)) != 0) ++end;
  switch (std::toupper(static_cast<unsigned char>(*end))) {
    case 'B':
      return number;
    case 'M':
      return number << 20;
    case 'G':
      return number << 30;
    default:
      return number << 10;
  }
}

class Attributes {
 public:
  Attributes() {
    pthread_attr_init(&value);
    if (const size_t size = stack_size_of_openmp(); size > 0)
      pthread_attr_setstacksize(&value, size);  // a size that is too small leaves the default, as
                                                // in libgomp
  }
  ~Attributes() { pthread_attr_destroy(&value); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  size_t stack_size() const {
    size_t size = 0;
    pthread_attr_getstacksize(&value, &size);
    return size;
  }
  pthread_attr_t value;
};

// Starts threads that do nothing, to learn how many can exist at the same time.
class Trial {
 public:
  // Returns 0 if the system gives all `count` threads, else the error number of the first that it
  // refuses.
  int start(const Attributes& attributes, int count) {
    threads_.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      pthread_t thread{};
      if (const int error = pthread_create(&thread, &attributes.value, wait, this)) return error;
      threads_.push_back(thread);
    }
    return 0;
  }
  ~Trial() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  }
  int started() const { return static_cast<int>(threads_.size()); }

 private:
  static void* wait(void* self) {
    auto& trial = *static_cast<Trial*>(self);
    std::unique_lock lock(trial.mutex_);
    trial.changed_.wait(lock, [&] { return trial.over_; });
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::vector<pthread_t> threads_;
};

void try_threads(int threads) {
  const Attributes attributes;
  Trial trial;
  const int error = trial.start(attributes, threads - 1);
  if (error == 0) return;
  throw Error(
      RT_ERROR_OUT_OF_MEMORY,
      format("cpu:0: %d threads with stacks of %.1f MiB asked for, the system gives %d (%s; "
             "address space: %s); lower device.threads or OMP_STACKSIZE, or raise the "
             "limits (ulimit -v, -u)",
             threads, mib(static_cast<double>(attributes.stack_size())), trial.started() + 1,
             std::strerror(error), address_limit().c_str()),
      RT_SCOPE_DEVICE);
}

}  // namespace

void require_headroom() {
  void* const place =
      mmap(nullptr, kHeadroom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place != MAP_FAILED) {
    munmap(place, kHeadroom);
    return;
  }
  throw Error(RT_ERROR_OUT_OF_MEMORY,
              format("cpu:0: less than %.0f MiB of address space are left for making kernels "
                     "(limit: %s; memory available: %.0f MiB); raise the limit (ulimit -v)",
                     mib(kHeadroom), address_limit().c_str(),
                     mib(static_cast<double>(system_memory().available_bytes))),
              RT_SCOPE_DEVICE);
}

void make_team(int threads) {
  thread_local int team = 1;
  if (team == threads) return;
  if (team < threads) {
    try_threads(threads);
    require_headroom();  // for libgomp's own structures of the team
  }
#pragma omp parallel num_threads(threads)
  { [[maybe_unused]] const int part = omp_get_thread_num(); }
  team = threads;
}

}  // namespace backends::cpu
