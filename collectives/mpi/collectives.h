// The collectives as blocking calls of MPI.
#ifndef COLLECTIVES_MPI_COLLECTIVES_H_
#define COLLECTIVES_MPI_COLLECTIVES_H_

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "collectives/shared_memory/host_collectives.h"
#include "rt/communicator.h"

namespace collectives::mpi {

// The settings of a communicator and of all communicators that are split from it.
struct Limits {
  // The largest number of elements for one call of MPI, whose counts are int; larger calls are
  // split.
  uint64_t largest_count = uint64_t{1} << 30;
  enum class Ring { kNever, kBetweenHosts, kAlways };
  Ring ring = Ring::kBetweenHosts;  // when large all-reduces use the ring
  bool device_memory = false;       // whether the library accesses device memory
  bool shared_memory = true;        // whether ranks of one machine may share memory
};

// The ranks of a communicator, and this process's rank among them.
struct Team {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  Limits limits = {};
  bool ring = false;  // whether large all-reduces use the ring
  // Carries out what it takes, if all ranks are on one machine; else nullptr.
  std::shared_ptr<shared_memory::HostCollectives> host_collectives = nullptr;
};

// Collective over the ranks of `comm`. Does not take ownership of `comm`.
Team team_of(MPI_Comm comm, const Limits& limits);

// The MPI type that transports elements of `dtype`; 16-bit floats are transported as integers.
MPI_Datatype mpi_type(rt_dtype dtype);

// The collectives, types and reductions that are supported in device memory: those that MPI
// computes without sums or copies by this plugin.
inline constexpr int32_t kDeviceKinds[] = {RT_ALL_REDUCE, RT_ALL_GATHER, RT_SEND, RT_RECEIVE};
inline constexpr uint64_t kDeviceSums = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) |
                                        RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64) |
                                        RT_DTYPE_BIT(RT_UINT8) | RT_DTYPE_BIT(RT_INT8);
inline constexpr uint32_t kDeviceReductions = 1u << RT_SUM | 1u << RT_MIN | 1u << RT_MAX;

// Throws rt::sdk::Error (RT_ERROR_INVALID_ARGUMENT or RT_ERROR_UNSUPPORTED) that names the fault of
// an invalid call. A call that passes does not fail later because of its arguments.
void check_call(const Team& team, const rt_collective& call);

// Carries out any collective except send, receive and barrier. Blocks, and keeps its core busy,
// until all ranks have called it.
void carry_out(const Team& team, const rt_collective& call);

// Calls body(offset, elements) for consecutive chunks of at most `largest` elements.
template <typename Body>
void in_parts(uint64_t count, uint64_t largest, Body&& body) {
  for (uint64_t offset = 0; offset < count; offset += largest) {
    body(offset, static_cast<int>(count - offset < largest ? count - offset : largest));
  }
}

}  // namespace collectives::mpi

#endif  // COLLECTIVES_MPI_COLLECTIVES_H_
