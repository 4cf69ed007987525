// Reads what bench prints, and tells sizes that do not fit from other failures.
#include "tools/tune/batch_trial.h"

#include <fmt/format.h>

#include <csignal>

#include "runtime/error.h"
#include "tools/trials/settings.h"

namespace tools::tune {

namespace {

using trials::Json;

BatchSpeed parse(const std::string& line) {
  const Json j = Json::parse(line);
  BatchSpeed speed;
  speed.samples_per_second = j.at("samples_per_second");
  speed.step_ms = j.at("step_ms_median");
  speed.memory_bytes = j.at("peak_memory_bytes_all_ranks");
  if (j.contains("device_utilisation")) speed.utilisation = j["device_utilisation"].get<int>();
  if (j.contains("device_memory_bytes"))
    speed.device_memory_bytes = j["device_memory_bytes"].get<uint64_t>();
  return speed;
}

std::string first_line(const std::string& text) {
  constexpr size_t kMost = 100;
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() <= kMost ? line : line.substr(0, kMost) + "...";
}

// "" if the failure has nothing to do with the size.
std::string reason_of(const trials::Ended& ended) {
  if (ended.timed_out) return fmt::format("not done after {:.0f} s", ended.seconds);
  if (ended.signal == SIGKILL) return "killed (SIGKILL), as the system does when memory is used up";
  if (ended.error.find("this batch does not fit") != std::string::npos)
    return first_line(ended.error);
  const bool memory = ended.error.find("memory") != std::string::npos ||
                      ended.error.find("OUT_OF_MEMORY") != std::string::npos;
  if (memory) return "memory: " + first_line(ended.error);
  const auto code = static_cast<runtime::ExitCode>(ended.exit_code);
  if (code == runtime::ExitCode::kConfiguration || code == runtime::ExitCode::kData)
    return "refused: " + first_line(ended.error);
  return "";
}

}  // namespace

BatchTrial judge(int64_t size, const trials::Ended& ended) {
  if (ended.exit_code == 0) return {size, parse(ended.output), ""};
  const std::string reason = reason_of(ended);
  if (!reason.empty()) return {size, std::nullopt, reason};
  const std::string end = ended.signal == 0 ? fmt::format("exit code {}", ended.exit_code)
                                            : fmt::format("signal {}", ended.signal);
  throw runtime::Error(
      ended.signal == 0 ? static_cast<runtime::ExitCode>(ended.exit_code)
                        : runtime::ExitCode::kInternal,
      fmt::format("the trial with batch size {} failed ({}): {}", size, end, ended.error));
}

}  // namespace tools::tune
