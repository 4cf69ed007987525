// Records of TensorBoard's event files. Source: tensorboard/compat/proto/event.proto and
// summary.proto, and the record format of TensorFlow ("TFRecord").
#ifndef RUNTIME_SESSION_REPORTS_TENSORBOARD_H_
#define RUNTIME_SESSION_REPORTS_TENSORBOARD_H_

#include <cstdint>
#include <string>
#include <vector>

namespace runtime::session::tensorboard {

// A number with its name; names with "/" are grouped by what is before it.
struct Scalar {
  std::string tag;
  double value = 0;  // written as float32
};

// All functions return one record. `time` is in seconds since 1970. Any thread.

// The record that a file begins with.
std::string first_record(double time);
// Says that what other files have from `step` on is void, because the run was resumed there.
std::string restart_record(double time, int64_t step);
std::string scalar_record(double time, int64_t step, const std::vector<Scalar>& scalars);

// CRC-32C (Castagnoli).
uint32_t crc32c(const std::string& bytes);

}  // namespace runtime::session::tensorboard

#endif  // RUNTIME_SESSION_REPORTS_TENSORBOARD_H_
