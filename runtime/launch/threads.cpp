// Starts a thread for each rank, and keeps the error that caused the others.
#include "runtime/launch/threads.h"

#include <mutex>
#include <thread>
#include <vector>

#include "plugins/host/error.h"
#include "runtime/error.h"
#include "runtime/launch/cores.h"

namespace runtime::launch {

namespace {

// Whether the exception that is being handled is possibly a mere consequence of the failure of
// another rank.
bool is_consequence() {
  try {
    throw;
  } catch (const Error& e) {
    return e.exit_code() == ExitCode::kCommunication;
  } catch (const plugins::host::Error& e) {
    return e.is_of_communication();
  } catch (...) {
    return false;
  }
}

}  // namespace

void run_rank_threads(const RankThreads& threads) {
  const Cores cores = allowed_cores();
  std::mutex mutex;
  std::exception_ptr cause;  // why the ranks have ended
  bool cause_is_consequence = false;
  // Keeps the exception that is being handled, if it says more than the one before.
  const auto keep = [&] {
    const bool consequence = is_consequence();
    std::unique_lock lock(mutex);
    const bool first = cause == nullptr;
    if (first || (cause_is_consequence && !consequence)) {
      cause = std::current_exception();
      cause_is_consequence = consequence;
    }
    lock.unlock();
    if (first && threads.abort_all) threads.abort_all();
  };
  std::vector<std::jthread> running;  // joined at the end, whatever happens
  const auto run = [&](int rank) {
    try {
      apply(share_of(cores, rank, threads.ranks));
      threads.body(rank);
    } catch (...) {
      keep();
    }
  };
  try {
    running.reserve(static_cast<size_t>(threads.ranks));
    for (int rank = 0; rank < threads.ranks; ++rank) running.emplace_back(run, rank);
  } catch (...) {  // the system gives no more threads
    keep();
  }
  running.clear();
  if (cause != nullptr) std::rethrow_exception(cause);
}

}  // namespace runtime::launch
