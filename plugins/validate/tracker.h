// What the validated plugins of a registry have in common: the state that every call is checked
// against.
#ifndef PLUGINS_VALIDATE_TRACKER_H_
#define PLUGINS_VALIDATE_TRACKER_H_

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "plugins/host/tables.h"
#include "plugins/validate/findings.h"
#include "plugins/validate/history.h"

namespace plugins::validate {

struct Tracker;

// One instance of a plugin that is validated. Its address is the `self` of the checking tables.
struct Instance {
  Tracker& tracker;
  std::string name;
  void* self = nullptr;  // of the plugin
  host::Tables plain;
  uint32_t minor = RT_ABI_MINOR;  // of the contract that the plugin was compiled with
};

enum class Kind { kDevice, kStream, kEvent, kPlan, kRecording, kCommunicator, kWork };
const char* to_string(Kind kind);

// What the host holds in place of an object of a plugin. An object stays in memory for a while
// after it was destroyed, so that its use can be found.
struct Object {
  Object(Kind kind, Instance& instance, std::string name)
      : kind(kind), instance(instance), name(std::move(name)) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  static constexpr uint64_t kMark = 0x7661'6c69'6461'7465;
  const uint64_t mark = kMark;
  const Kind kind;
  Instance& instance;          // lives until no call can come any more
  std::string name;            // for findings: "cpu:0 stream 1"
  bool alive = true;           // guarded by Tracker::mutex, as the rest
  const char* call = nullptr;  // the call that works with the object now
  Findings& findings() const;
  // Keeps and throws a fault in a call that works with the object.
  [[noreturn]] void fault(Offender offender, const std::string& call,
                          const std::string& what) const;
  Tracker& tracker() const { return instance.tracker; }
};

// A collective that runs beside the streams. Nobody may write its buffers, nor read what it
// receives, until it has completed.
struct Flight {
  const Object* work = nullptr;
  const Object* communicator = nullptr;
  Range sent, received;
  std::string what;
};

struct Tracker {
  explicit Tracker(std::function<void(const std::string&)> log) : findings(std::move(log)) {}
  Findings findings;
  std::atomic<std::size_t> streams = 0;  // that were made so far
  std::mutex mutex;                      // guards everything below
  Clock host;                            // the work that the host knows to have run
  std::unordered_map<const void*, std::unique_ptr<Object>> objects;
  std::deque<const void*> dead;  // in the order in which they were destroyed
  std::vector<Flight> flights;

  // The handle of a new object, which the tracker owns.
  void* adopt(std::unique_ptr<Object> object);
  // Marks an object as destroyed, and forgets those that were destroyed long ago. The caller holds
  // the mutex.
  void bury(Object& object);
  // The object behind a handle that came in a struct; nullptr if no validated plugin made it.
  Object* find(const void* handle);
};

// Says that `object` is used by the call `call` of this thread, and that the object lives. Faults
// the runtime for an object that was destroyed, and for two calls at the same time.
class Turn {
 public:
  Turn(Object& object, const char* call);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Object& object_;
};

// Faults the runtime if the object was destroyed.
void expect_alive(const Object& object, const char* call);

// The object behind a handle that is an argument of its own. The handle may be of an object that
// was destroyed. (The C functions get nothing else to begin from, so a wild pointer cannot be told
// with certainty.)
Object* object_at(const void* handle, Kind kind);

template <typename T, typename Handle>
T& as(Handle* handle) {
  return *static_cast<T*>(object_at(handle, T::kKind));
}

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_TRACKER_H_
