// Whether a device computes in bfloat16, and the reason if it does not.
#ifndef BACKENDS_CPU_BFLOAT16_OBSTACLE_H_
#define BACKENDS_CPU_BFLOAT16_OBSTACLE_H_

#include <optional>
#include <string>

#include "backends/cpu/isa.h"

namespace backends::cpu {

// The conditions under which a device computes in bfloat16.
struct Bfloat16Conditions {
  bool processor = false;      // the processor has AVX512-BF16
  std::string processor_name;  // for messages
  std::optional<Isa> limit;    // the option [device.cpu] isa; empty: native
  bool onednn = false;         // oneDNN uses AVX512-BF16 in this process
};

// Says what is missing and what to do about it; empty if the device computes in bfloat16. A device
// without the instructions refuses bfloat16, because oneDNN's emulation of it is slower than
// float32.
std::string bfloat16_obstacle(const Bfloat16Conditions& conditions);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_BFLOAT16_OBSTACLE_H_
