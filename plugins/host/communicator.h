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
#include "plugins/host/release.h"

namespace plugins::host {

class Communicator;

// A started collective. Movable. The destructor frees it; the buffers must stay valid until the
// collective has completed or failed. Equivalent to: MPI_Request, torch.distributed.Work.
class Work {
 public:
  Work() = default;
  // Takes ownership of `work` and keeps the communicator alive.
  Work(std::shared_ptr<Communicator> communicator, rt_work* work);
  bool poll();  // true if the collective has completed; throws if it failed
  void wait(std::chrono::nanoseconds timeout);  // throws RT_ERROR_TIMEOUT; the collective goes on
  explicit operator bool() const { return work_ != nullptr; }

 private:
  std::shared_ptr<Communicator> communicator_;
  Handle<Communicator, rt_work> work_;
};

// How a rank joins a communicator; see rt_comm_options.
struct CommunicatorOptions {
  int32_t rank = 0;
  int32_t world_size = 1;
  int32_t local_rank = 0;
  std::string prefix;                        // unique to this communicator within the job
  std::string interface = {};                // "" means loopback
  std::shared_ptr<Device> device = nullptr;  // owner of the buffers; nullptr: host memory
  std::chrono::nanoseconds timeout = std::chrono::seconds(30);
  std::map<std::string, std::string> options = {};
};

// Describes a collective on host memory, with peer -1 and without a stream. `count` is in elements.
rt_collective make_collective(int32_t kind, rt_dtype dtype, const void* send, void* receive,
                              uint64_t count, int32_t reduction = 0);

// The rows that a plugin lists in `capabilities`, and the properties of its communicators. Throws
// if the plugin offers no communicators or gives values beyond limits.h.
std::vector<rt_comm_capability> list_capabilities(const Plugin& plugin);
rt_comm_properties communicator_properties(const Plugin& plugin);

// A communicator; keeps its plugin and device open. The caller serializes all calls except abort
// and asynchronous_error, which any thread may call.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  // Joins and blocks until all ranks have joined. Throws RT_ERROR_TIMEOUT, with the missing ranks,
  // if that takes longer than options.timeout.
  static std::shared_ptr<Communicator> create(std::shared_ptr<Plugin> plugin,
                                              const CommunicatorOptions& options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int32_t rank() const { return rank_; }  // after split(): that of the parent
  const Plugin& plugin() const { return *plugin_; }
  // The device that owns the buffers; nullptr: host memory only.
  const std::shared_ptr<Device>& device() const { return device_; }

  // A collective call: ranks of the same colour form a communicator, ordered by key, then by rank.
  // Returns nullptr for a negative colour. Equivalent to: MPI_Comm_split.
  std::shared_ptr<Communicator> split(int32_t color, int32_t key, std::chrono::nanoseconds timeout);
  // Starts a collective without waiting for it.
  Work enqueue(const rt_collective& collective);

  // Makes pending and later collectives fail, as far as the plugin's properties promise.
  void abort();
  // An error that was found outside a call, such as a lost connection. Does not block.
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

// All collectives enqueued between the constructor and end() start together. If an exception leaves
// the group open, the destructor ends it and logs errors of doing so. Equivalent to:
// ncclGroupStart, ncclGroupEnd.
class CommunicatorGroup {
 public:
  explicit CommunicatorGroup(std::shared_ptr<Communicator> communicator);
  ~CommunicatorGroup();
  CommunicatorGroup(const CommunicatorGroup&) = delete;
  CommunicatorGroup& operator=(const CommunicatorGroup&) = delete;
  // Starts everything that was enqueued in the group.
  void end();

 private:
  std::shared_ptr<Communicator> communicator_;
  bool open_ = true;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_COMMUNICATOR_H_
