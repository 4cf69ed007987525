// What validation has found, and how it reaches the caller.
#ifndef PLUGINS_VALIDATE_FINDINGS_H_
#define PLUGINS_VALIDATE_FINDINGS_H_

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "rt/common.h"

namespace plugins::validate {

// Who broke the contract. The value is the status with which the call answers.
enum class Offender : rt_status {
  kRuntime = RT_ERROR_INVALID_ARGUMENT,  // "the caller broke a rule of the contract"
  kPlugin = RT_ERROR_INTERNAL,
};

constexpr const char* kRuntimeAtFault = "validation: the runtime is at fault: ";
constexpr const char* kPluginAtFault = "validation: the plugin is at fault: ";

// Ends a call in which a fault was found.
struct Fault {
  Offender offender;
  std::string text;
};

// Ends a call with the error that the plugin answered. The plugin has filled the rt_error.
struct Answered {
  rt_status status;
  bool refusal = false;  // the plugin only declined, so the error does not count as a failure
};

// Throws Answered if the plugin answered a call that does work with an error. From then on
// Findings::failed() is true.
inline void require(rt_status status) {
  if (status != RT_OK) throw Answered{status};
}
// Throws Answered if the plugin answered a call that creates or describes something with an error.
// The plugin has then made nothing and broken nothing, so Findings::failed() stays as it is.
inline void require_made(rt_status status) {
  if (status != RT_OK) throw Answered{status, /*refusal=*/true};
}

// Every fault that was found. Thread-safe.
class Findings {
 public:
  explicit Findings(std::function<void(const std::string&)> log) : log_(std::move(log)) {}

  // Keeps and throws a Fault. `where` names the device or communicator, the call and the operand.
  [[noreturn]] void fault(Offender offender, const std::string& where, const std::string& what);
  // Throws the fault of an earlier call that could not answer with an error.
  void throw_postponed();
  void postpone(const Fault& fault);
  // Whether something has failed already, after which objects are destroyed in any state.
  bool failed() const { return failed_; }
  void set_failed() { failed_ = true; }
  // All faults so far, in the order in which they were found.
  std::vector<Fault> all() const;

 private:
  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;
  std::vector<Fault> all_;  // guarded by mutex_, as the rest
  std::vector<Fault> postponed_;
  const std::function<void(const std::string&)> log_;
};

// Writes a fault into the rt_error of a call. Returns the status of the call.
rt_status fill(rt_error* error, rt_status status, const std::string& text);

// The body of a function that can fail. It returns a status, or throws Fault or Answered.
template <typename Body>
rt_status answer(Findings& findings, rt_error* error, Body&& body) {
  try {
    findings.throw_postponed();
    return body();
  } catch (const Fault& fault) {
    return fill(error, static_cast<rt_status>(fault.offender), fault.text);
  } catch (const Answered& answered) {
    if (!answered.refusal) findings.set_failed();
    return answered.status;
  } catch (const std::invalid_argument& e) {  // a handle of no object
    findings.set_failed();
    return fill(error, RT_ERROR_INVALID_ARGUMENT, std::string(kRuntimeAtFault) + e.what());
  } catch (const std::exception& e) {
    findings.set_failed();
    return fill(error, RT_ERROR_INTERNAL, std::string("validation itself failed: ") + e.what());
  }
}

// The body of a function that cannot fail: a fault is logged, and the next call that can fail
// reports it.
template <typename Body>
void release(Findings& findings, Body&& body) {
  try {
    body();
  } catch (const Fault& fault) {
    findings.postpone(fault);
  }
}

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_FINDINGS_H_
