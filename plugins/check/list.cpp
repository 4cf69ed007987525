// The list of all checks.
#include <algorithm>

#include "plugins/check/check.h"

namespace plugins::check {

namespace {

std::vector<Check> all_checks() {
  std::vector<Check> checks;
  add_library_checks(checks);
  add_instance_checks(checks);
  add_device_checks(checks);
  add_memory_checks(checks);
  add_copy_checks(checks);
  add_event_checks(checks);
  add_capture_checks(checks);
  add_size_checks(checks);
  add_launch_checks(checks);
  add_kernel_checks(checks);
  add_native_checks(checks);
  add_communicator_checks(checks);
  add_reader_checks(checks);
  add_operation_set_checks(checks);
  return checks;
}

}  // namespace

std::vector<Check> list_checks(const std::vector<std::string>& groups) {
  std::vector<Check> checks = all_checks();
  if (groups.empty()) return checks;
  std::erase_if(checks, [&](const Check& check) {
    return std::find(groups.begin(), groups.end(), check.group) == groups.end();
  });
  return checks;
}

std::vector<std::string> group_names() {
  std::vector<std::string> names;
  for (const Check& check : all_checks()) {
    if (names.empty() || names.back() != check.group) names.push_back(check.group);
  }
  return names;
}

}  // namespace plugins::check
