// Keeps at most a hundred faults, and reports later those of calls that cannot fail.
#include "plugins/validate/findings.h"

#include <cstring>

namespace plugins::validate {
namespace {

constexpr std::size_t kMostFindings = 100;

}  // namespace

void Findings::fault(Offender offender, const std::string& where, const std::string& what) {
  const char* const at_fault = offender == Offender::kPlugin ? kPluginAtFault : kRuntimeAtFault;
  const Fault fault{offender, at_fault + where + ": " + what};
  failed_ = true;
  const std::lock_guard lock(mutex_);
  if (all_.size() < kMostFindings) all_.push_back(fault);
  throw fault;
}

void Findings::throw_postponed() {
  const std::lock_guard lock(mutex_);
  if (postponed_.empty()) return;
  const Fault fault = postponed_.front();
  postponed_.clear();
  throw fault;
}

void Findings::postpone(const Fault& fault) {
  if (log_) log_(fault.text);
  const std::lock_guard lock(mutex_);
  postponed_.push_back(fault);
}

std::vector<Fault> Findings::all() const {
  const std::lock_guard lock(mutex_);
  return all_;
}

rt_status fill(rt_error* error, rt_status status, const std::string& text) {
  if (error == nullptr || error->size < RT_ERROR_SIZE_V1) return status;
  error->code = status;
  error->scope = RT_SCOPE_DEVICE;
  error->native_code = 0;
  error->native_domain[0] = '\0';
  std::strncpy(error->message, text.c_str(), sizeof(error->message) - 1);
  error->message[sizeof(error->message) - 1] = '\0';
  return status;
}

}  // namespace plugins::validate
