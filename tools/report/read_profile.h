// What the profiler has written about the steps of a run: profile.json, format 1. Times are
// nanoseconds of one step; numbers that the file lacks are NaN.
#ifndef TOOLS_REPORT_READ_PROFILE_H_
#define TOOLS_REPORT_READ_PROFILE_H_

#include <filesystem>
#include <string>
#include <vector>

namespace tools::report {

// One operation of the step.
struct ProfiledOperation {
  std::string name, layer, phase, implementation;
  double calls, time_ns, share, flops, bytes, roofline_share;
};

// The memory in use while an operation runs.
struct MemoryPoint {
  std::string operation;  // name, or its number in the order of the step
  double bytes;
};

// A value that is in memory when most memory is in use.
struct LiveValue {
  std::string name;
  double bytes;
};

// The profile of one rank.
struct RankProfile {
  int rank = 0;
  std::string device;
  double first_step, last_step, step_ns;
  double forward_ns, backward_ns, update_ns, pack_ns;
  double exposed_ns, hidden_ns, communicated_bytes;
  double data_wait_ns, prepare_ns, upload_ns, report_ns, between_ns, exchange_ns;  // of the host
  double cpu_utilisation, device_utilisation;
  std::vector<ProfiledOperation> operations;  // the longest first
  double persistent_bytes, peak_bytes;
  std::vector<MemoryPoint> timeline;
  std::vector<LiveValue> alive_at_peak;  // the largest first
};

struct Profile {
  int world_size = 1;
  std::vector<RankProfile> ranks;
};

// Throws DataError if the file is no profile of format 1, with the key that is at fault.
Profile read_profile(const std::filesystem::path& file);

}  // namespace tools::report

#endif  // TOOLS_REPORT_READ_PROFILE_H_
