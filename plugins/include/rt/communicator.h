/* The communicator table: collectives among the ranks of a job. Interface "rt.communicator",
 * version 1. Threads: the host serializes calls on one communicator; different communicators may be
 * used concurrently unless RT_COMM_SINGLE_THREAD is set. All ranks make the same calls in the same
 * order. */
#ifndef RT_COMMUNICATOR_H_
#define RT_COMMUNICATOR_H_

#include "rt/common.h"
#include "rt/device.h"
#include "rt/native.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RT_COMMUNICATOR_API_VERSION 1
/* rt_error.native_domain: native_code is a rank of the communicator made by `create`, not of a
 * split one. With RT_ERROR_TIMEOUT the rank does not answer; with RT_ERROR_COMMUNICATION its
 * connection has broken without a farewell, as when its process is killed. */
#define RT_DOMAIN_SILENT_RANK "silent rank"
#define RT_DOMAIN_LOST_RANK "lost rank"

typedef struct rt_communicator rt_communicator; /* equivalent to: ncclComm_t, MPI_Comm */
typedef struct rt_work rt_work; /* a started collective; equivalent to: MPI_Request */

/* Collectives. R is the world size; `count` is in elements and may be 0. */
#define RT_ALL_REDUCE 1     /* send [count] -> receive [count], the same bits on every rank */
#define RT_REDUCE_SCATTER 2 /* send [R*count] -> receive [count], rank r gets chunk r */
#define RT_ALL_GATHER 3     /* send [count] -> receive [R*count], in the order of ranks */
#define RT_BROADCAST 4      /* send [count] on `peer` -> receive [count] on every rank */
#define RT_REDUCE 5         /* send [count] -> receive [count] on `peer` */
#define RT_ALL_TO_ALL 6     /* send [R*count] -> receive [R*count], chunk r goes to rank r */
#define RT_SEND 7           /* send [count] to `peer` */
#define RT_RECEIVE 8        /* receive [count] from `peer` */
#define RT_BARRIER 9        /* moves nothing; completes when all ranks have started it */

/* Reductions. float16 and bfloat16 are summed in float32 and rounded once, at the end. RT_AVERAGE
 * is the sum divided by R; for integers the quotient is truncated towards zero, and the sum itself
 * must fit.
 */
#define RT_SUM 1
#define RT_AVERAGE 2
#define RT_MIN 3 /* the smallest element of all ranks */
#define RT_MAX 4 /* the largest one */

/* rt_comm_capability.flags. 0x4 is reserved: the host ignores it. (It said that the collective may
 * be captured into a graph of the device; the host starts collectives between its recordings.) */

/* `send` and `receive` may share memory, see rt_collective. Without the flag, the host gives them
 * memory of their own, or sends a copy. */
#define RT_COMM_IN_PLACE 0x1u
/* Runs in order with the work of a device stream. Without the flag, the host waits for the stream
 * before the collective, and for the collective before later work of the stream. */
#define RT_COMM_ON_STREAM 0x2u
/* With RT_COMM_ON_STREAM: the collective may be queued on a stream that is being captured (see
 * rt/capture.h). It is then recorded, and each replay runs it again. Its work is complete at once
 * and knows nothing of replays; the host follows those by events behind them and by
 * asynchronous_error. All ranks record and replay the same collectives in the same order. The host
 * destroys the recordings before the communicator; abort does not wait for them, and ends replays
 * that wait for other ranks. The host of this version captures no collectives yet. */
#define RT_COMM_CAPTURABLE 0x8u

/* One row of what a plugin can do: the collective with each of these types and each of these
 * reductions. A collective may have several rows, for example for types with other reductions. */
typedef struct rt_comm_capability {
  uint32_t size;
  int32_t collective;    /* RT_ALL_REDUCE, ... */
  uint64_t dtypes;       /* mask of RT_DTYPE_BIT */
  uint32_t reductions;   /* mask of 1 << RT_SUM, ... */
  uint32_t memory_kinds; /* mask of 1 << RT_MEMORY_* */
  uint32_t flags;        /* RT_COMM_IN_PLACE, ... */
  uint32_t reserved;
} rt_comm_capability;
#define RT_COMM_CAPABILITY_SIZE_V1 32

/* rt_comm_properties.flags. 0x4 is reserved: the host ignores it. (It said that the plugin cannot
 * be started again after shutdown, as MPI; the host starts a plugin once in a process.) */

/* abort makes blocked calls return, which plugins/conformance tests. Without the flag they may
 * block until the process ends; the host relies on no plugin to wake and ends the process of a rank
 * that cannot go on. */
#define RT_COMM_ABORT_WAKES 0x1u
/* Calls of the process must come from one thread at a time. The host refuses to use the plugin for
 * ranks that are threads of one process, and for asynchronous updates. */
#define RT_COMM_SINGLE_THREAD 0x2u
#define RT_COMM_BACKGROUND 0x8u /* collectives progress while the host computes */

/* rt_comm_properties.ranks: how the host starts ranks that use the plugin. */
#define RT_RANKS_ANY_PROCESS 0 /* processes of any launcher */
#define RT_RANKS_THREADS 1     /* threads of one process */
#define RT_RANKS_MPI 2         /* processes that mpiexec has started */

/* What all communicators of a plugin have in common. */
typedef struct rt_comm_properties {
  uint32_t size;
  uint32_t flags;         /* RT_COMM_ABORT_WAKES, ... */
  char device_plugin[32]; /* device plugin whose memory it can access; "": host memory */
  char description[128];  /* one line for people, such as the library and its version */
  /* Minor version 1: */
  uint32_t ranks;   /* RT_RANKS_* */
  int32_t priority; /* with comm.backend = "auto" the host takes, of the plugins for its kind of
                       ranks, the one with the highest priority; 0: none of them */
  /* The host plans with these typical values of the link between two ranks on one machine, and with
   * RT_COMM_BACKGROUND; 0 if they are unknown. A message of n bytes takes latency_ns plus
   * n / bytes_per_second. */
  int64_t latency_ns;
  int64_t bytes_per_second; /* of one rank that sends and receives at the same time */
} rt_comm_properties;
#define RT_COMM_PROPERTIES_SIZE_V1 168

/* How a rank joins a communicator. The plugin performs the rendezvous through the key-value store
 * of rt_host, with keys under `prefix`. */
typedef struct rt_comm_options {
  uint32_t size;
  int32_t rank;          /* of the caller, 0..world_size-1 */
  int32_t world_size;    /* number of ranks that join */
  int32_t local_rank;    /* of the caller, among the ranks on its machine */
  const char* prefix;    /* unique to this communicator within the job */
  const char* interface; /* network interface or address to bind; "": the default (loopback) */
  rt_device* device;     /* device that owns the buffers; NULL: host memory */
  int64_t timeout_ns;    /* time limit of the whole initialisation */
  const rt_option* const* options; /* [comm.<plugin>] */
  uint32_t option_count;
  uint32_t reserved;
  /* Minor version 1: */
  /* Gives the vendor's handles of `device` and of its streams; NULL if its plugin does not tell
   * them, or if the buffers are host memory. Valid as long as the device. */
  const rt_native_api* native;
} rt_comm_options;
#define RT_COMM_OPTIONS_SIZE_V1 64

/* One call of a collective. The caller keeps the buffers valid and untouched until the work has
 * completed. In place means receive == send; for RT_REDUCE_SCATTER receive == this rank's chunk of
 * send, for RT_ALL_GATHER send == this rank's chunk of receive. A buffer that a rank does not need
 * (send of a broadcast or receive of a reduce, except on `peer`) is ignored and may be NULL. Sends
 * and receives between the same two ranks match in order, whatever comes between them. */
typedef struct rt_collective {
  uint32_t size;
  int32_t kind;      /* RT_ALL_REDUCE ... */
  rt_dtype dtype;    /* type of the elements of both buffers */
  int32_t reduction; /* RT_SUM, ...; 0 if nothing is reduced */
  const void* send;  /* read until the work has completed */
  void* receive;     /* written until the work has completed */
  uint64_t count;    /* elements, as the list of collectives says */
  int32_t peer;      /* rank of the root, destination or source; -1: none */
  /* Kind of memory of both buffers. If the communicator was created with `device` NULL,
   * RT_MEMORY_PINNED_HOST stands for any host memory, pinned or not. */
  int32_t memory_kind;
  rt_stream* stream; /* the collective runs after the work queued on it; NULL: starts now */
} rt_collective;
#define RT_COLLECTIVE_SIZE_V1 56

/* The functions of the interface. The plugin owns the table; no slot may be NULL. */
typedef struct rt_communicator_api {
  uint32_t size;
  uint32_t version; /* RT_COMMUNICATOR_API_VERSION */

  /* Fills the properties, which hold for all communicators of the plugin. */
  rt_status (*properties)(void* self, rt_comm_properties* properties, rt_error* error);
  /* With `rows` NULL, sets *count to the number of rows. Else fills at most *count rows,
   * rows[0].size bytes apart, and sets *count to how many it filled. (A plugin of minor version 0
   * fills them RT_COMM_CAPABILITY_SIZE_V1 bytes apart.) */
  rt_status (*capabilities)(void* self, rt_comm_capability* rows, uint32_t* count, rt_error* error);

  /* Joins; the caller destroys the result. Blocks until all ranks have joined, or fails with
   * RT_ERROR_TIMEOUT and names the missing ranks. Equivalent to: ncclCommInitRank. */
  rt_status (*create)(void* self, const rt_comm_options* options, rt_communicator** communicator,
                      rt_error* error);
  /* Collective. Ranks of the same colour form a new communicator, ordered by `key`, then by rank; a
   * colour < 0 joins none (*result = NULL). Equivalent to: MPI_Comm_split, ncclCommSplit. */
  rt_status (*split)(rt_communicator* communicator, int32_t color, int32_t key, int64_t timeout_ns,
                     rt_communicator** result, rt_error* error);
  /* Frees a communicator. The caller has freed all collectives that it started (rt_work). */
  void (*destroy)(rt_communicator* communicator);

  /* Begins a group. The calls enqueued until group_end start together and cannot wait for one
   * another. Outside a group, a plugin may run the calls of a communicator one after the other. The
   * host does not poll or wait for collectives of an open group. Equivalent to: ncclGroupStart,
   * ncclGroupEnd. */
  rt_status (*group_begin)(rt_communicator* communicator, rt_error* error);
  /* Starts the calls of the group. */
  rt_status (*group_end)(rt_communicator* communicator, rt_error* error);

  /* Starts a collective without waiting for it. The caller frees *work with work_destroy, also if
   * the collective has failed. If it has not completed yet, freeing *work does not cancel it. */
  rt_status (*enqueue)(rt_communicator* communicator, const rt_collective* collective,
                       rt_work** work, rt_error* error);
  /* Returns RT_OK, RT_NOT_READY or the collective's error. A collective completes even if it is
   * only polled. */
  rt_status (*work_poll)(rt_work* work, rt_error* error);
  /* Like work_poll, but waits; after RT_ERROR_TIMEOUT the collective goes on. */
  rt_status (*work_wait)(rt_work* work, int64_t timeout_ns, rt_error* error);
  void (*work_destroy)(rt_work* work); /* see enqueue */

  /* Makes pending and later calls fail with RT_ERROR_ABORTED, as far as the properties promise. Any
   * thread. */
  rt_status (*abort)(rt_communicator* communicator, rt_error* error);
  /* Returns an error found outside a call (a lost peer), else RT_OK. Does not block. Any thread. */
  rt_status (*asynchronous_error)(rt_communicator* communicator, rt_error* error);
} rt_communicator_api;
#define RT_COMMUNICATOR_API_SIZE_V1 112

#ifdef __cplusplus
}
#endif

#endif /* RT_COMMUNICATOR_H_ */
