/* Optional table of a device plugin: records the work of streams once and replays it with one call.
 * Interface "rt.capture", version 1. Equivalent to: CUDA graphs and HIP graphs made by stream
 * capture.
 *
 * Between `begin` and `end`, work that the host queues on the stream is recorded and does not run.
 * The same holds for work on other streams that wait for an event recorded on the captured stream.
 * Before `end`, the captured stream must wait for an event recorded on each of these other streams.
 * A recording stores addresses; the data at these addresses may change between replays. During a
 * capture the host launches only kernels whose plan has the flag RT_PLAN_CAPTURABLE, and the
 * capturing thread waits for nothing, queries nothing and allocates nothing. Threads: as in
 * rt/device.h; captures of different streams may run concurrently. */
#ifndef RT_CAPTURE_H_
#define RT_CAPTURE_H_

#include "rt/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Name and version for rt_plugin.get_interface. */
#define RT_INTERFACE_CAPTURE "rt.capture"
#define RT_CAPTURE_API_VERSION 1

/* Recorded work. Equivalent to: cudaGraphExec_t. */
typedef struct rt_recording rt_recording;

/* The functions of the interface. The plugin owns the table; no slot may be NULL. */
typedef struct rt_capture_api {
  uint32_t size;
  uint32_t version; /* RT_CAPTURE_API_VERSION */

  /* Starts recording the work of the stream. Equivalent to: cudaStreamBeginCapture. */
  rt_status (*begin)(rt_stream* stream, rt_error* error);
  /* Ends the capture in any case. If something could not be recorded, the function returns an error
   * and no recording, and the stream works as before. If `recording` is NULL, the recorded work is
   * discarded. The caller destroys the recording. Equivalent to: cudaStreamEndCapture followed by
   * cudaGraphInstantiate. */
  rt_status (*end)(rt_stream* stream, rt_recording** recording, rt_error* error);
  /* Queues all recorded work on `stream`. A recording may run on only one stream at a time.
   * Equivalent to: cudaGraphLaunch. */
  rt_status (*replay)(rt_recording* recording, rt_stream* stream, rt_error* error);
  /* Waits for replays that still run, then frees the recording. Equivalent to:
   * cudaGraphExecDestroy. */
  void (*destroy)(rt_recording* recording);
} rt_capture_api;
#define RT_CAPTURE_API_SIZE_V1 40

#ifdef __cplusplus
}
#endif

#endif /* RT_CAPTURE_H_ */
