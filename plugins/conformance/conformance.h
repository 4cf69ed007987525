// The checks that every compute plugin must pass: each case is run on the device in every candidate
// that it offers, and compared with the reference device.
//
//   for (const Case& c : all_cases()) {
//     const Result r = run_case(*device, *reference, c);   // r.outcome, r.detail
//   }
//
// A whole test file of a backend: tests/backends/simulated/conformance_test.cpp.
#ifndef PLUGINS_CONFORMANCE_CONFORMANCE_H_
#define PLUGINS_CONFORMANCE_CONFORMANCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/device.h"
#include "plugins/host/operation.h"

namespace plugins::conformance {

// What an operand is filled with: uniform in [low, high), whole numbers for integer types, the same
// on every machine. With zero_every = k every k-th element is 0.
struct Values {
  double low = -1.0;
  double high = 1.0;
  uint64_t seed = 1;
  int64_t zero_every = 0;
  // A number that stands for others: NaN, an infinity, -0... The elements are seen as rows of
  // special_row; with special_every = k each k-th row, the first of them special_at, holds it.
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
  // For a backward that reads saved data: the forward, run first. Operands that both share have the
  // same Values.
  std::optional<host::Operation> forward;
  std::vector<Values> forward_inputs;
  rt_dtype dtype = RT_FLOAT32;  // the type it computes in
  bool mandatory = false;       // every plugin must do it in one of its compute types
};

enum class Outcome { kPassed, kSkipped, kFailed };

struct Result {
  Outcome outcome = Outcome::kPassed;
  // Skipped: the plugin's reason. Failed: what, in which candidate, actual and expected. Passed:
  // the implementations that ran.
  std::string detail;
  int candidates = 0;        // how many ways of doing it ran
  double worst_error = 0.0;  // relative, in the norm of an output
};

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

// Names of the operations that occur in all_cases(), each once; and the cases of one of them.
std::vector<std::string> covered_operations();
std::vector<Case> cases_of(const std::string& operation);
// Those in the types that the device says it computes in.
std::vector<Case> cases_of(const std::string& operation, const host::Device& device);

// "59 operations x 4 types, 2100 cases"
std::string count_text(const std::vector<Case>& cases);

// Never throws: an error of either device is a failure. Waits for the device. `reference` is a
// device of the plugin `reference`.
Result run_case(host::Device& device, host::Device& reference, const Case& c);

Summary run_cases(host::Device& device, host::Device& reference, const std::vector<Case>& cases);

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_CONFORMANCE_H_
