// Communicators and their works, as the checking tables keep them, and the buffers of a collective.
#ifndef PLUGINS_VALIDATE_COLLECTIVE_H_
#define PLUGINS_VALIDATE_COLLECTIVE_H_

#include <vector>

#include "plugins/validate/objects.h"

namespace plugins::validate {

struct CommunicatorObject : Object {
  static constexpr Kind kKind = Kind::kCommunicator;
  using Object::Object;
  rt_communicator* plain = nullptr;
  DeviceObject* device = nullptr;  // nullptr: host memory
  // Rank and world size are -1 after a split, because the plugin does not tell them.
  int32_t rank = -1, world_size = -1;
  std::vector<rt_comm_capability> rows;
  bool open_group = false;
  bool aborted = false;  // guarded by Tracker::mutex, as the thread that aborted it
  std::thread::id aborter;
};

struct WorkObject : Object {
  static constexpr Kind kKind = Kind::kWork;
  using Object::Object;
  rt_work* plain = nullptr;
  CommunicatorObject* communicator = nullptr;
};

// The memory that a collective reads and writes on this rank. Of a communicator that was split off
// only what is known without its size.
struct Buffers {
  Range sent, received;  // 0 bytes: ignored on this rank
};
Buffers buffers_of(const CommunicatorObject& communicator, const rt_collective& collective);

// Whether the collective runs in the order of its stream.
bool is_on_stream(const CommunicatorObject& communicator, const rt_collective& collective);

// Faults the runtime for buffers that are missing, freed or too small, that overlap otherwise than
// in place, or that something else uses. Keeps the use: of the stream, or as a flight of `work`.
void check_and_keep(CommunicatorObject& communicator, StreamObject* stream,
                    const rt_collective& collective, const Object* work);

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_COLLECTIVE_H_
