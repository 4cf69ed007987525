// The opaque objects of the contract, and the devices of an instance of the plugin.
#ifndef DEVICE_H_
#define DEVICE_H_

#include <map>
#include <mutex>
#include <vector>

#include "opencl.h"
#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/sdk/address_map.h"
#include "rt/sdk/recorded_event.h"
#include "rt/sdk/staging.h"

// All devices of all platforms, in the order in which the loader of OpenCL lists them. They are
// looked for once, when they are first asked for. The methods are those of rt/sdk/device_table.h.
class Devices {
 public:
  int32_t count();
  rt_device_properties properties(int32_t index);
  rt_device* open(int32_t index, const rt_device_options& options);

 private:
  std::once_flag once_;
  std::vector<cl_device_id> ids_;
};

// A point in the work of a queue.
struct Event : Owned<cl_event, clRetainEvent, clReleaseEvent> {
  void synchronize() const;
  bool is_complete() const;  // true without an object
  int64_t nanoseconds() const;
};

// An opened device. All methods may be called from any thread.
struct rt_device {
  explicit rt_device(cl_device_id device);

  void* allocate(uint64_t bytes, int32_t kind);
  void release(void* address, int32_t kind);
  rt_memory_info memory_info() const;
  // The kernels for one type, which are compiled when they are first asked for.
  cl_program program(rt_dtype real);

  const cl_device_id id;
  const uint64_t dtypes;  // those that kernels compute in
  Context context;
  rt::sdk::AddressMap<Buffer> memory, pinned;

 private:
  Queue transfers_;  // maps pinned memory
  std::mutex mutex_;
  std::map<rt_dtype, Program> programs_;  // guarded by mutex_
};

// An in-order queue. One thread may use it at a time.
struct rt_stream {
  explicit rt_stream(rt_device& owner);
  ~rt_stream() { clFinish(queue.get()); }
  void synchronize();
  void copy(void* to, const void* from, uint64_t bytes);
  void fill(void* to, int32_t value, uint64_t bytes);
  Event mark();
  void wait(const Event& event);

  rt_device& device;
  const Queue queue;

 private:
  void write(cl_mem to, uint64_t offset, const void* from, uint64_t bytes);
  void read(void* to, cl_mem from, uint64_t offset, uint64_t bytes);
  rt::sdk::StagingRing<Event> staging_;
};

struct rt_event : rt::sdk::RecordedEvent<Event> {
  explicit rt_event(rt_device&) {}
};

#endif  // DEVICE_H_
