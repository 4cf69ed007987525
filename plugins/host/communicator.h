// RAII handles over the communicator table. Every function throws plugins::host::Error.
#ifndef PLUGINS_HOST_COMMUNICATOR_H_
#define PLUGINS_HOST_COMMUNICATOR_H_

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/device.h"
#include "plugins/host/error.h"
#include "plugins/host/plugin.h"

namespace plugins::host {

class Communicator;

// A collective was not complete in time, and a rank does not answer over its connection.
class SilentRank : public Error {
 public:
  SilentRank(const std::string& message, int rank)
      : Error(RT_ERROR_TIMEOUT, message), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

// A started collective. Movable. The destructor frees it; the buffers must stay valid until it has
// completed or failed.
class Work {
 public:
  Work() = default;
  Work(std::shared_ptr<Communicator> communicator, rt_work* work);
  Work(Work&& other) noexcept;
  Work& operator=(Work&& other) noexcept;
  ~Work();
  bool poll();                                  // true: completed; throws if it failed
  void wait(std::chrono::nanoseconds timeout);  // Error RT_ERROR_TIMEOUT: the work goes on
  explicit operator bool() const { return work_ != nullptr; }

 private:
  std::shared_ptr<Communicator> communicator_;
  rt_work* work_ = nullptr;
};

// How a rank joins; see rt_comm_options.
struct CommunicatorOptions {
  int32_t rank = 0;
  int32_t world_size = 1;
  int32_t local_rank = 0;
  std::string prefix;                        // unique to this communicator within the job
  std::string interface = {};                // "": loopback
  std::shared_ptr<Device> device = nullptr;  // whose memory will be passed; nullptr: host memory
  std::chrono::nanoseconds timeout = std::chrono::seconds(30);
  std::map<std::string, std::string> options = {};
};

// An empty description of a collective: peer -1, host memory, no stream.
rt_collective make_collective(int32_t kind, rt_dtype dtype, const void* send, void* receive,
                              uint64_t count, int32_t reduction = 0);

// Rows of what a plugin can do, and how its communicators behave.
std::vector<rt_comm_capability> list_capabilities(const Plugin& plugin);
rt_comm_properties communicator_properties(const Plugin& plugin);

// Calls are serialized by the caller, except abort and asynchronous_error (any thread).
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  // Joins; returns when all ranks have.
  static std::shared_ptr<Communicator> create(std::shared_ptr<Plugin> plugin,
                                              const CommunicatorOptions& options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int32_t rank() const { return rank_; }  // of the communicator it was split from, if it was
  const Plugin& plugin() const { return *plugin_; }
  // Whose memory may be passed; nullptr: host memory only.
  const std::shared_ptr<Device>& device() const { return device_; }

  // Collective. nullptr for a negative colour.
  std::shared_ptr<Communicator> split(int32_t color, int32_t key, std::chrono::nanoseconds timeout);
  Work enqueue(const rt_collective& collective);

  void abort();
  std::optional<Error> asynchronous_error();

  rt_communicator* get() const { return communicator_; }

 private:
  friend class CommunicatorGroup;
  Communicator(std::shared_ptr<Plugin> plugin, std::shared_ptr<Device> device, int32_t rank,
               rt_communicator* communicator);
  const rt_communicator_api& api() const { return *plugin_->communicator_api(); }
  std::string describe(const char* what) const;

  std::shared_ptr<Plugin> plugin_;
  std::shared_ptr<Device> device_;
  int32_t rank_ = 0;
  rt_communicator* communicator_ = nullptr;
};

// What is enqueued between the constructor and end() starts together. The destructor ends a group
// that an exception left open; errors of that are logged.
class CommunicatorGroup {
 public:
  explicit CommunicatorGroup(std::shared_ptr<Communicator> communicator);
  ~CommunicatorGroup();
  CommunicatorGroup(const CommunicatorGroup&) = delete;
  CommunicatorGroup& operator=(const CommunicatorGroup&) = delete;
  void end();

 private:
  std::shared_ptr<Communicator> communicator_;
  bool open_ = true;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_COMMUNICATOR_H_
