// The checks that every compute plugin must pass: each case is run on the device with every
// candidate that the device offers, and compared with the reference device.
//
//   for (const Case& c : all_cases()) {
//     const Result r = run_case(*device, *reference, c);   // r.outcome, r.detail
//   }
//
// tests/backends/simulated/conformance_test.cpp is the whole test file of a backend.
#ifndef PLUGINS_CONFORMANCE_CONFORMANCE_H_
#define PLUGINS_CONFORMANCE_CONFORMANCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/device.h"
#include "plugins/host/operation.h"

namespace plugins::conformance {

// What an operand is filled with: numbers uniform in [low, high), whole numbers for integer types,
// the same on every machine. With zero_every = k every k-th element is 0.
struct Values {
  double low = -1.0;
  double high = 1.0;
  uint64_t seed = 1;
  int64_t zero_every = 0;
  // A number such as NaN, an infinity or -0 that replaces others. The elements are seen as rows of
  // special_row elements. With special_every = k, every k-th row, beginning with row special_at,
  // holds this number in all its elements.
  double special = 0.0;
  int64_t special_every = 0;
  int64_t special_at = 0;
  int64_t special_row = 1;
};

// One operation on fixed shapes, in canonical layouts.
struct Case {
  std::string name;  // "conv2d/float32/stride 2", unique
  host::Operation operation;
  std::vector<Values> inputs;  // one for each input of `operation`
  // For a backward operation that reads saved data: the forward operation, which is run first.
  // Operands that both share have the same Values.
  std::optional<host::Operation> forward;
  std::vector<Values> forward_inputs;
  rt_dtype dtype = RT_FLOAT32;  // the type in which the operation computes
  bool mandatory = false;       // every plugin must support it in one of its compute types
};

enum class Outcome { kPassed, kSkipped, kFailed };

// The result of one case.
struct Result {
  Outcome outcome = Outcome::kPassed;
  // If skipped: the plugin's reason. If failed: what failed, in which candidate, the actual and the
  // expected value. If passed: the implementations that ran.
  std::string detail;
  int candidates = 0;        // number of candidates that ran
  double worst_error = 0.0;  // largest relative error, in the norm of an output
};

// The results of many cases.
struct Summary {
  int passed = 0;
  int skipped = 0;
  int failed = 0;
  int candidates = 0;
  std::vector<std::string> failures;  // "name: detail"
  std::vector<std::string> skips;     // "name: reason"
  std::string text() const;           // one paragraph for people
};

// Every case, in a fixed order.
std::vector<Case> all_cases();

// The names of the operations that occur in all_cases(), each once; and the cases of one operation.
std::vector<std::string> covered_operations();
std::vector<Case> cases_of(const std::string& operation);
// The cases of an operation in the compute types of the device.
std::vector<Case> cases_of(const std::string& operation, const host::Device& device);

// "59 operations x 4 types, 2100 cases"
std::string count_text(const std::vector<Case>& cases);

// What the refusal of a mandatory operation is: a failure for a finished plugin, a skipped case for
// one that is being written.
enum class Mandatory { kFails, kSkipped };

// Runs one case. Never throws: an error of either device is a failure. Waits for the device.
// `reference` must be a device of the plugin `reference`.
Result run_case(host::Device& device, host::Device& reference, const Case& c,
                Mandatory mandatory = Mandatory::kFails);

Summary run_cases(host::Device& device, host::Device& reference, const std::vector<Case>& cases,
                  Mandatory mandatory = Mandatory::kFails);

// For a device that was made to fail the launches of the operation after they were queued: queues
// one, and checks that the event behind it, a stream that waits for that event, and in the end the
// stream itself report the error. Returns "" or what the device does instead. Waits for the device.
std::string check_failed_launch(host::Device& device, const Case& c);

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_CONFORMANCE_H_
