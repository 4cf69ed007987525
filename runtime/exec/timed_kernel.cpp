// Queues launches between two events, from a recording where there is one.
#include "runtime/exec/timed_kernel.h"

#include <chrono>

#include "plugins/host/error.h"

namespace runtime::exec {

double StreamTimer::time(plugins::host::Stream& stream, const std::function<void()>& lead,
                         const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  if (stream.device()->is_inline()) {
    const auto begin = Clock::now();
    work();
    stream.synchronize();
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
  }
  if (lead != nullptr) lead();
  begin_.record(stream);
  work();
  end_.record(stream);
  stream.synchronize();
  return static_cast<double>(plugins::host::Event::elapsed(begin_, end_).count());
}

void TimedKernel::queue(int launches) {
  const rt_launch launch = addresses_.launch();
  for (int i = 0; i < launches; ++i) kernel_.launch(stream_, launch);
}

double TimedKernel::launch_first() {
  return timer_.time(stream_, nullptr, [&] { queue(1); });
}

void TimedKernel::set_batch(int launches, bool leads) {
  batch_ = launches;
  leads_ = leads;
  recording_ = {};
  const bool records = stream_.device()->plugin().capture_api() != nullptr &&
                       (kernel_.info().flags & RT_PLAN_CAPTURABLE) != 0;
  if (!records || launches == 1) return;
  try {
    recording_ = plugins::host::Recording(stream_, [&] { queue(launches); });
    recording_.replay(stream_);  // the first replay may take longer
    stream_.synchronize();
  } catch (const plugins::host::Error& error) {
    if (error.scope() != RT_SCOPE_OPERATION && error.scope() != RT_SCOPE_STREAM) throw;
    recording_ = {};  // launches work without it
  }
}

double TimedKernel::launch_batch() {
  const std::function<void()> lead = [&] { queue(1); };
  return timer_.time(stream_, leads_ ? lead : nullptr,
                     [&] { recording_ ? recording_.replay(stream_) : queue(batch_); });
}

}  // namespace runtime::exec
