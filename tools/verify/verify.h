// The command `runtime verify` and its forms: steps that are compared, the search for the operation
// that is at fault, gradients, and cases that are run again.
#ifndef TOOLS_VERIFY_VERIFY_H_
#define TOOLS_VERIFY_VERIFY_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/cli/arguments.h"
#include "runtime/cli/say.h"
#include "runtime/session/session.h"
#include "tools/verify/reduce.h"

namespace runtime::verify {

using cli::ConfigArguments;
using cli::Outcome;
using cli::say;
using session::Session;

// Steps that `verify` compares if --steps is not given.
inline constexpr int64_t kVerifySteps = 3;
struct VerifyArguments {
  ConfigArguments config;
  std::string against;                         // a backend, backend:index, or a file
  std::string record;                          // the file to write
  std::string reduce;                          // the folder in which a case is written
  std::string case_folder, device, candidate;  // a case to run again; in what
  int64_t steps = 0;                           // 0: kVerifySteps, or all steps of the file
  double rtol = 0;                             // 0: chosen by the types of the step
  double max_gib = 8;                          // of host memory for the values of the steps
  bool isolate = false, json = false;
  bool gradients = false;  // compare gradients of operations of plugins with central differences
};
// Compares steps, records them, checks gradients, or runs a case again. Throws NumericError at the
// first difference, for a wrong gradient, and for a case that is still wrong.
void run_verify(const VerifyArguments& arguments, Outcome& outcome);

// `verify --reduce`: searches steps that differ for the operation at fault, and writes it to a
// folder as a case. The session is borrowed.
class Reducer {
 public:
  // What the search has found, as text and as JSON.
  struct Finding {
    std::string text;
    nlohmann::ordered_json json;
  };

  // Throws ConfigurationError unless a case can be written to the folder.
  Reducer(Session& session, std::string folder, std::string against);

  // Examines a step that was compared; `equal` says that no difference was found. Returns nothing
  // if nothing is wrong with the step.
  std::optional<Finding> look_at(const StepStart& start, bool equal);

 private:
  std::string write(const Case& c) const;
  std::string rounding_text(const Reduction& reduction) const;
  std::string operation_text(const Reduction& reduction) const;
  Finding report(Reduction reduction) const;
  Finding report(const SynchronizationFault& fault, int64_t step) const;

  Session& session_;
  std::string folder_, against_;
  Judge judge_;
};

// Runs `verify --case`. Throws NumericError if the case is still wrong.
void run_case(const VerifyArguments& arguments);

// Runs `verify --gradients`. Throws NumericError if a gradient is wrong.
void verify_gradients(const VerifyArguments& arguments);

// Opens the device of the plugin that defines what every operation computes.
std::shared_ptr<plugins::host::Device> open_definition(const config::Config& config,
                                                       const plugins::host::Registry& registry);

// Returns, for example, "[0, 3, 1]: expected 0.25, actual nan".
std::string element_text(const Verdict& verdict);
nlohmann::ordered_json to_json(const Verdict& verdict);

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_VERIFY_H_
