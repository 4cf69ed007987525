// The collectives as blocking calls of MPI.
#ifndef COLLECTIVES_MPI_COLLECTIVES_H_
#define COLLECTIVES_MPI_COLLECTIVES_H_

#include <mpi.h>

#include <cstdint>

#include "rt/communicator.h"

namespace collectives::mpi {

// What a communicator of this plugin, and all split from it, were asked for.
struct Limits {
  // Most elements that one call of MPI is given (its counts are int); larger ones are cut.
  uint64_t largest_count = uint64_t{1} << 30;
  enum class Ring { kNever, kBetweenHosts, kAlways };
  Ring ring = Ring::kBetweenHosts;  // the way that large all-reduces go
  bool device_memory = false;       // the library reads it
};

// Ranks that communicate, and this process's place among them.
struct Team {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  Limits limits = {};
  bool ring = false;  // large all-reduces go around one
};

// Collective over the ranks of `comm`.
Team team_of(MPI_Comm comm, const Limits& limits);

MPI_Datatype mpi_type(rt_dtype dtype);

// What can be done in device memory: what MPI does by itself, without sums or copies of ours.
inline constexpr int32_t kDeviceKinds[] = {RT_ALL_REDUCE, RT_ALL_GATHER, RT_SEND, RT_RECEIVE};
inline constexpr uint64_t kDeviceSums = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) |
                                        RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64) |
                                        RT_DTYPE_BIT(RT_UINT8) | RT_DTYPE_BIT(RT_INT8);
inline constexpr uint32_t kDeviceReductions = 1u << RT_SUM | 1u << RT_MIN | 1u << RT_MAX;

// Throws rt::sdk::Error RT_ERROR_INVALID_ARGUMENT or RT_ERROR_UNSUPPORTED, naming what is wrong
// with a call. What passes does not fail later for its arguments.
void check_call(const Team& team, const rt_collective& call);

// Any kind but send, receive and barrier. Blocks, and burns its core, until all ranks have come.
void carry_out(const Team& team, const rt_collective& call);

// Calls body(offset, elements) for parts of at most `largest` elements.
template <typename Body>
void in_parts(uint64_t count, uint64_t largest, Body&& body) {
  for (uint64_t offset = 0; offset < count; offset += largest) {
    body(offset, static_cast<int>(count - offset < largest ? count - offset : largest));
  }
}

}  // namespace collectives::mpi

#endif  // COLLECTIVES_MPI_COLLECTIVES_H_
