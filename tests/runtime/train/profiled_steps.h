// Steps of a job that are profiled as the training loop profiles them.
#ifndef TESTS_RUNTIME_TRAIN_PROFILED_STEPS_H_
#define TESTS_RUNTIME_TRAIN_PROFILED_STEPS_H_

#include "runtime/train/profiler.h"
#include "tests/runtime/train/job.h"
#include "tests/runtime/train/settings.h"

namespace runtime::train {

// The [profiling] that records steps 2 to 4, of a job with this micro-batch.
inline Settings profiling_settings(const std::string& micro_batch = "auto") {
  return {{"profiling.enabled", "true"},
          {"profiling.wait", "0"},
          {"profiling.warmup", "1"},
          {"profiling.active", "3"},
          {"training.micro_batch_size", micro_batch}};
}

// Runs `count` steps on the next batches; the job's [profiling] says which of them are recorded.
inline Recording profile_steps(Job& job, int count) {
  Profiler profiler(*job.programs, job.trainer->steps_done(),
                    [&](exec::SpanRecorder* spans) { job.trainer->record(spans); });
  for (int i = 0; i < count; ++i) {
    exec::SpanRecorder* const spans = profiler.begin_step();
    {
      const exec::HostSpan step(spans, exec::SpanKind::kStep);
      job.trainer->step(job.loader->next(), job.config.optimizer.lr);
      job.losses();
    }
    profiler.end_step();
  }
  return profiler.take();
}

}  // namespace runtime::train

#endif  // TESTS_RUNTIME_TRAIN_PROFILED_STEPS_H_
