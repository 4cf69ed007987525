// The recorded steps as events of a trace, which Perfetto and chrome://tracing show.
#ifndef RUNTIME_ANALYSIS_TRACE_H_
#define RUNTIME_ANALYSIS_TRACE_H_

#include <string>
#include <vector>

#include "runtime/train/profiler.h"

namespace runtime::analysis {

// The earliest begin in the recording, by the clock of rank 0; INT64_MAX if there is none.
int64_t first_ns(const train::Recording& recording);

// The events of a rank as JSON objects with commas between them. A rank is a process of the trace,
// and a stream is a thread of it. The spans of a step contain those of its phases, these those of
// layers, and these those of operations. Times are those of rank 0's clock, less `origin_ns`.
// Equivalent to: the "Trace Event Format" of Chromium, with complete events ("X"), names ("M") and
// the planned memory as a counter ("C").
std::string trace_events(const train::Recording& recording, const train::StepPrograms& programs,
                         int rank, int64_t origin_ns);
// The file with the events of all ranks.
std::string trace_file(const std::vector<std::string>& events_of_ranks);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_TRACE_H_
