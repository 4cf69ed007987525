// Runs a launch on copies of its operands, between guards, twice.
#ifndef PLUGINS_VALIDATE_GUARDED_LAUNCH_H_
#define PLUGINS_VALIDATE_GUARDED_LAUNCH_H_

#include <cstddef>
#include <vector>

#include "plugins/validate/launch.h"

namespace plugins::validate {

// A launch between guards. It copies the operands into memory of its own on the device, each
// between guard bytes, fills what the kernel shall write with a poison value, launches, and reads
// everything back behind the launch, on the same stream. It does so twice with different poison.
// Equivalent to: memcheck and initcheck of compute-sanitizer.
class GuardedLaunch {
 public:
  // Everything must outlive the object. `where` names the launch.
  GuardedLaunch(PlanObject& plan, StreamObject& stream, const rt_launch& launch,
                const std::vector<Operand>& operands, const std::string& where, rt_error* error);

  // Faults the plugin if it writes beyond an operand or to an input, leaves bytes of a result
  // unwritten, or if a result depends on what memory held before. Then copies the results to the
  // operands of the launch. Only launches if the copies do not fit into the largest buffer of the
  // device.
  void run();

 private:
  // The place of an operand; operands with the same address share one.
  struct Place {
    uintptr_t address = 0;
    uint64_t offset = 0, bytes = 0;  // in that memory
    bool read = false, written = false;
    const Operand* operand =
        nullptr;  // the one that names it: one that is written, if there is one
  };
  // That memory after a launch, and the inputs as they were before it.
  struct Image {
    std::vector<std::byte> before, after;
  };

  void lay_out();
  void reserve();
  std::byte* memory() const { return static_cast<std::byte*>(stream_.scratch); }
  const Place& place_of(const void* address) const;
  Image launch_with(std::byte poison);
  void launch_once();
  void check_guards(const Image& image) const;
  void check_inputs(const Image& image) const;
  void compare(const Image& first, const Image& second);
  void compare(const Place& place, const Image& first, const Image& second);
  void check_written(const Place& place, const Image& first, const Image& second) const;
  void copy_results();
  [[noreturn]] void fault(Offender offender, const Operand& operand, const std::string& what) const;

  PlanObject& plan_;
  StreamObject& stream_;
  const rt_launch& launch_;
  const std::vector<Operand>& operands_;
  const std::string& where_;
  rt_error* const error_;
  std::vector<Place> places_;
  uint64_t bytes_ = 0;  // of that memory
};

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_GUARDED_LAUNCH_H_
