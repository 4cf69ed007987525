// Sets heartbeats while rank 0 works, and watches them on the other ranks.
#include "runtime/launch/main_work.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "plugins/host/text.h"
#include "runtime/error.h"
#include "runtime/launch/rendezvous_folder.h"

namespace runtime::launch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Keys end in the rank that sets them, by which a store finds them fastest. No key is set twice,
// because PMIx does not always show the later value.
std::string beat_key(const std::string& work, int64_t beat) {
  return work + "beat" + std::to_string(beat) + "/0";
}
std::string done_key(const std::string& work) { return work + "done/0"; }

constexpr milliseconds kLongestBeat{1000}, kShortestBeat{20};
// Most work is short, so a waiting rank looks often at first.
constexpr milliseconds kFirstLook{1};

// Sets one key after the other until it is told to stop. Calls `on_late` once, when `timeout` has
// passed.
void keep_beating(const std::stop_token& stop, Store& store, const std::string& work,
                  nanoseconds interval, nanoseconds timeout, const std::function<void()>& on_late) {
  const auto begin = Clock::now();
  bool late = false;
  std::mutex mutex;
  std::condition_variable_any wake;
  for (int64_t beat = 0; !stop.stop_requested();) {
    try {
      store.set(beat_key(work, beat), "");
      ++beat;
    } catch (const Error&) {
      // The next attempt may succeed; the other ranks wait for several heartbeats before they
      // give up.
    }
    if (!late && Clock::now() - begin > timeout) {
      late = true;
      on_late();
    }
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, interval, [] { return false; });
  }
}

}  // namespace

void MainWork::run(const char* what, const std::function<void()>& work) {
  const std::string keys = options_.prefix + "main/" + std::to_string(count_++) + "/";
  options_.rank == 0 ? lead(keys, what, work) : follow(keys, what);
}

void MainWork::lead(const std::string& keys, const char* what, const std::function<void()>& work) {
  const std::string too_long =
      std::string(what) + " has taken more than " + plugins::host::seconds_text(options_.timeout) +
      "; see what holds up the file system (a full disk, a server that does not answer), or raise "
      "comm.save_timeout_s";
  std::atomic<bool> late = false;
  {
    const watch::Watchdog::Shelter shelter(watchdog_);
    const SavingLock lock(options_.job_folder);
    const auto interval =
        std::clamp<nanoseconds>(options_.silence / 8, kShortestBeat, kLongestBeat);
    const auto on_late = [&] {
      late = true;
      watchdog_.give_up(too_long);
    };
    const std::jthread heartbeat([&](const std::stop_token& stop) {
      keep_beating(stop, store_, keys, interval, options_.timeout, on_late);
    });
    work();
  }
  if (late) throw DataError(too_long);  // the other ranks have given up
  store_.set(done_key(keys), "");
  watchdog_.check();
}

void MainWork::follow(const std::string& keys, const char* what) {
  const watch::Watchdog::Phase phase(watchdog_, what, options_.timeout + 2 * options_.silence);
  int64_t next_beat = 0;
  auto heard = Clock::now();
  nanoseconds pause = kFirstLook;
  for (;;) {
    watchdog_.check();
    if (store_.try_get(done_key(keys))) return;
    if (store_.try_get(beat_key(keys, next_beat))) {
      ++next_beat;
      heard = Clock::now();
    }
    if (Clock::now() - heard > options_.silence)
      watchdog_.fail("nothing has been heard of " + watchdog_.options().names.of(0) + " for " +
                     plugins::host::seconds_text(options_.silence));
    std::this_thread::sleep_for(pause);
    pause = std::min<nanoseconds>(2 * pause, watch::Watchdog::kSlice);
  }
}

}  // namespace runtime::launch
