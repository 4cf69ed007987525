// The profile of a training run: the table for people, and the files in the run's folder.
#ifndef RUNTIME_SESSION_PROFILE_H_
#define RUNTIME_SESSION_PROFILE_H_

#include "runtime/session/session.h"
#include "runtime/train/reporter.h"
#include "runtime/train/run/loop.h"

namespace runtime::session {

// Writes profile.json and trace.json of all ranks, and notes the table of rank 0; does nothing
// unless profiling.enabled. All ranks must call it.
void report_profile(const Session& session, const train::RunResult& result,
                    train::Reporter& reporter);

}  // namespace runtime::session

#endif  // RUNTIME_SESSION_PROFILE_H_
