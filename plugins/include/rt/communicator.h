/* The communicator table: collectives among the ranks of a job. Interface "rt.communicator",
 * version 1.
 *
 * Thread rule: the host serializes calls on one communicator; different communicators may be used
 * concurrently unless RT_COMM_SINGLE_THREAD is set. Every rank must make the same calls in the same
 * order. */
#ifndef RT_COMMUNICATOR_H_
#define RT_COMMUNICATOR_H_

#include "rt/common.h"
#include "rt/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RT_COMMUNICATOR_API_VERSION 1
#define RT_DOMAIN_SILENT_RANK "silent rank" /* rt_error.native_domain, see work_wait */

typedef struct rt_communicator rt_communicator;
typedef struct rt_work rt_work;

/* Collectives. `count` is in elements and may be 0; with world size R: */
#define RT_ALL_REDUCE 1     /* send [count] -> receive [count], the same bits on every rank */
#define RT_REDUCE_SCATTER 2 /* send [R*count] -> receive [count], rank r gets part r */
#define RT_ALL_GATHER 3     /* send [count] -> receive [R*count], in the order of ranks */
#define RT_BROADCAST 4      /* send [count] on `peer` -> receive [count] on every rank */
#define RT_REDUCE 5         /* send [count] -> receive [count] on `peer` */
#define RT_ALL_TO_ALL 6     /* send [R*count] -> receive [R*count], part r goes to rank r */
#define RT_SEND 7           /* send [count] to `peer` */
#define RT_RECEIVE 8        /* receive [count] from `peer` */
#define RT_BARRIER 9

/* float16 and bfloat16 are added in float32 and rounded once, at the end. RT_AVERAGE is the sum
 * divided by R; of integers the quotient is truncated towards zero (the sum itself must fit). */
#define RT_SUM 1
#define RT_AVERAGE 2
#define RT_MIN 3
#define RT_MAX 4

/* rt_comm_capability.flags */
#define RT_COMM_IN_PLACE 0x1u   /* `send` and `receive` may share memory, as rt_collective says */
#define RT_COMM_ON_STREAM 0x2u  /* runs on a device stream; else the host inserts the waits */
#define RT_COMM_CAPTURABLE 0x4u /* may be captured into a graph of the device */

/* One row of what a plugin can do: each of its types with each of its reductions. A collective may
 * have several rows, e.g. for types with other reductions. */
typedef struct rt_comm_capability {
  uint32_t size;
  int32_t collective;
  uint64_t dtypes;       /* mask of RT_DTYPE_BIT */
  uint32_t reductions;   /* mask of 1 << RT_SUM ... */
  uint32_t memory_kinds; /* mask of 1 << RT_MEMORY_* */
  uint32_t flags;
  uint32_t reserved;
} rt_comm_capability;

/* rt_comm_properties.flags */
#define RT_COMM_ABORT_WAKES 0x1u    /* abort makes waiters return; else the end of the process */
#define RT_COMM_SINGLE_THREAD 0x2u  /* calls of the process come from one thread at a time */
#define RT_COMM_ONCE_A_PROCESS 0x4u /* cannot be started again after shutdown (MPI) */

typedef struct rt_comm_properties {
  uint32_t size;
  uint32_t flags;
  char device_plugin[32]; /* whose memory it reads, by name; "": what the host may touch */
  char description[128];
} rt_comm_properties;

/* How a rank joins. Rendezvous goes through the key-value store of rt_host, under `prefix`. */
typedef struct rt_comm_options {
  uint32_t size;
  int32_t rank;
  int32_t world_size;
  int32_t local_rank;
  const char* prefix;    /* unique to this communicator within the job */
  const char* interface; /* network interface or address to bind, "" for the default (loopback) */
  rt_device* device;     /* whose memory will be passed; NULL: host memory */
  int64_t timeout_ns;    /* deadline of the whole initialisation */
  const rt_option* const* options;
  uint32_t option_count;
  uint32_t reserved;
} rt_comm_options;

/* One call of a collective. Buffers stay valid and untouched until the work has completed. In place
 * means receive == send; for RT_REDUCE_SCATTER receive == own part of send, for RT_ALL_GATHER send
 * == own part of receive. A buffer that a rank has no use for (send of a broadcast anywhere but on
 * `peer`, receive of a reduce) is ignored and may be NULL. Sends and receives between the same two
 * ranks match in order, whatever else is enqueued between them. */
typedef struct rt_collective {
  uint32_t size;
  int32_t kind; /* RT_ALL_REDUCE ... */
  rt_dtype dtype;
  int32_t reduction; /* RT_SUM ... where it reduces, else 0 */
  const void* send;
  void* receive;
  uint64_t count;
  int32_t peer;        /* root, destination or source; -1 where there is none */
  int32_t memory_kind; /* of both; RT_MEMORY_PINNED_HOST: any host memory, if no device was given */
  rt_stream* stream;   /* queued after the work on it; NULL: now */
} rt_collective;

typedef struct rt_communicator_api {
  uint32_t size;
  uint32_t version; /* RT_COMMUNICATOR_API_VERSION */

  rt_status (*properties)(void* self, rt_comm_properties* properties, rt_error* error);
  /* Two calls: with rows NULL sets *count; then fills up to *count rows. */
  rt_status (*capabilities)(void* self, rt_comm_capability* rows, uint32_t* count, rt_error* error);

  /* Joins; blocks until all ranks have, or the deadline has passed (RT_ERROR_TIMEOUT, naming the
   * missing ranks). */
  rt_status (*create)(void* self, const rt_comm_options* options, rt_communicator** communicator,
                      rt_error* error);
  /* Ranks of the same colour form a new communicator, ordered by `key`, then by rank; colour < 0:
   * none (*result = NULL). Collective. */
  rt_status (*split)(rt_communicator* communicator, int32_t color, int32_t key, int64_t timeout_ns,
                     rt_communicator** result, rt_error* error);
  void (*destroy)(rt_communicator* communicator);

  /* Between the two calls, enqueued sends, receives and collectives are started together and cannot
   * wait for another. Outside, a plugin may carry out the calls of a communicator one after the
   * other. Works of an open group are not polled or waited for. */
  rt_status (*group_begin)(rt_communicator* communicator, rt_error* error);
  rt_status (*group_end)(rt_communicator* communicator, rt_error* error);

  /* Starts a collective; does not wait for it. *work is freed with work_destroy, also after an
   * error of the work; freed before it has completed, the collective goes on. */
  rt_status (*enqueue)(rt_communicator* communicator, const rt_collective* collective,
                       rt_work** work, rt_error* error);
  /* RT_OK, RT_NOT_READY, or how it failed. Polling alone is enough for a work to complete. */
  rt_status (*work_poll)(rt_work* work, rt_error* error);
  /* As poll, but waits; RT_ERROR_TIMEOUT at the deadline, the work goes on. With the native domain
   * RT_DOMAIN_SILENT_RANK the native code is a rank (before splits) that does not answer. */
  rt_status (*work_wait)(rt_work* work, int64_t timeout_ns, rt_error* error);
  void (*work_destroy)(rt_work* work);

  /* Any thread. Makes pending and later work fail with RT_ERROR_ABORTED, as far as the properties
   * promise. */
  rt_status (*abort)(rt_communicator* communicator, rt_error* error);
  /* An error that was found outside a call (a peer lost); RT_OK if none. Any thread, does not
   * block. */
  rt_status (*asynchronous_error)(rt_communicator* communicator, rt_error* error);
} rt_communicator_api;

#ifdef __cplusplus
}
#endif

#endif /* RT_COMMUNICATOR_H_ */
