// The checks of `runtime plugins check` are a list of named functions in groups.
#ifndef PLUGINS_CHECK_CHECK_H_
#define PLUGINS_CHECK_CHECK_H_

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/check/context.h"

namespace plugins::check {

// The plugin breaks a rule of the contract. The text says what was done, what came of it, and what
// is expected.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One check. `body` runs in a child process; it returns a remark for the report, "" for none, and
// throws Skip if the check does not apply to this plugin. Every other exception is a fault.
struct Check {
  std::string group;  // "events"
  std::string name;   // what a good plugin does: "a stream waits for an event of another stream"
  std::function<std::string(Context&)> body;
};

enum class Outcome { kPassed, kSkipped, kFailed };

// The result of one check.
struct Row {
  std::string group, name;
  Outcome outcome = Outcome::kPassed;
  std::string detail;  // the fault, why the check was skipped, or the remark
  double seconds = 0;
};

// The groups, in the order in which they run. Each function appends its checks.
void add_library_checks(std::vector<Check>& checks);
void add_instance_checks(std::vector<Check>& checks);
void add_device_checks(std::vector<Check>& checks);
void add_memory_checks(std::vector<Check>& checks);
void add_copy_checks(std::vector<Check>& checks);
void add_event_checks(std::vector<Check>& checks);
void add_capture_checks(std::vector<Check>& checks);
void add_size_checks(std::vector<Check>& checks);
void add_kernel_checks(std::vector<Check>& checks);
void add_launch_checks(std::vector<Check>& checks);
void add_native_checks(std::vector<Check>& checks);
void add_communicator_checks(std::vector<Check>& checks);
void add_reader_checks(std::vector<Check>& checks);
void add_operation_set_checks(std::vector<Check>& checks);

// All checks of the groups named in `groups`, or of every group if it is empty.
std::vector<Check> list_checks(const std::vector<std::string>& groups);

// The names of all groups, in their order.
std::vector<std::string> group_names();

// Throws Fault with the text `otherwise` unless `holds`.
inline void require(bool holds, const std::string& otherwise) {
  if (!holds) throw Fault(otherwise);
}

}  // namespace plugins::check

#endif  // PLUGINS_CHECK_CHECK_H_
