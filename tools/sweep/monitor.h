// Whether the runs of a sweep measure what it compares.
#ifndef TOOLS_SWEEP_MONITOR_H_
#define TOOLS_SWEEP_MONITOR_H_

#include <string>

#include "runtime/config/value.h"

namespace tools::sweep {

// Returns why runs with this resolved configuration never report the field `monitor` of
// metrics.jsonl, with a remedy; "" if they may. Only fields of validations are looked at, and not
// whether the data have a validation part.
std::string why_not_measured(const std::string& monitor, const runtime::config::Value& config);

}  // namespace tools::sweep

#endif  // TOOLS_SWEEP_MONITOR_H_
