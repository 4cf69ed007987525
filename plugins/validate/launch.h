// The operands of a launch, and the checks of them that need no run.
#ifndef PLUGINS_VALIDATE_LAUNCH_H_
#define PLUGINS_VALIDATE_LAUNCH_H_

#include <string>
#include <vector>

#include "plugins/validate/objects.h"

namespace plugins::validate {

// An operand of a launch, the workspace or the saved data.
struct Operand {
  const char* role;  // "input", "output", "workspace", "saved data"
  uint32_t index = 0;
  Range range;
  rt_dtype dtype = RT_UINT8;
  bool canonical = true;
  bool read = false, written = false;
  bool is_input() const { return read && !written; }
};

// "output 0"; "workspace".
std::string to_string(const Operand& operand);

// The operands of a launch that have at least one byte. Faults the runtime for another number of
// operands than the plan has, and for missing ones. `where` names the launch.
std::vector<Operand> operands_of(const PlanObject& plan, const rt_launch& launch,
                                 const std::string& where);

// Faults the runtime for an operand that is not aligned or not memory of the device, and for
// operands that overlap and are no in-place pair. The caller holds Tracker::mutex.
void check_operands(const PlanObject& plan, const std::vector<Operand>& operands,
                    const std::string& where);

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_LAUNCH_H_
