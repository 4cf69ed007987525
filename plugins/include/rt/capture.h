/* Optional table of a device: record the work of streams once and replay it with one call.
 * Interface "rt.capture", version 1. Source: CUDA and HIP graphs, in which this is one call each.
 *
 * Between begin and end, work that is queued on the stream, and on streams that were made to wait
 * for events recorded on it, is recorded and does not run; such streams are joined (the first one
 * waits for an event recorded on them) before end. Addresses are recorded: what is behind them may
 * change between replays. Only kernels whose plan says RT_PLAN_CAPTURABLE are launched meanwhile,
 * and nothing is waited for, queried or allocated by the capturing thread. Thread rule as in
 * rt/device.h; captures of different streams may run concurrently.
 */
#ifndef RT_CAPTURE_H_
#define RT_CAPTURE_H_

#include "rt/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RT_INTERFACE_CAPTURE "rt.capture"
#define RT_CAPTURE_API_VERSION 1

typedef struct rt_recording rt_recording;

typedef struct rt_capture_api {
  uint32_t size;
  uint32_t version; /* RT_CAPTURE_API_VERSION */

  rt_status (*begin)(rt_stream* stream, rt_error* error);
  /* Ends the capture in any case. With an error (something in between could not be recorded) there
   * is no recording, and the stream works as before. `recording` NULL: what was recorded is thrown
   * away. */
  rt_status (*end)(rt_stream* stream, rt_recording** recording, rt_error* error);
  /* Queues all of it; a recording runs on one stream at a time. */
  rt_status (*replay)(rt_recording* recording, rt_stream* stream, rt_error* error);
  /* Waits for replays that are under way. */
  void (*destroy)(rt_recording* recording);
} rt_capture_api;

#ifdef __cplusplus
}
#endif

#endif /* RT_CAPTURE_H_ */
