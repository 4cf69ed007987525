// What the forms of `runtime verify` have in common: the search for the operation that is at fault,
// and cases that are run again.
#ifndef RUNTIME_CLI_VERIFY_H_
#define RUNTIME_CLI_VERIFY_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/analysis/reduce.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/session.h"

namespace runtime::cli {

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
  std::optional<Finding> look_at(const analysis::StepStart& start, bool equal);

 private:
  std::string write(const analysis::Case& c) const;
  std::string rounding_text(const analysis::Reduction& reduction) const;
  std::string operation_text(const analysis::Reduction& reduction) const;
  Finding report(analysis::Reduction reduction) const;
  Finding report(const analysis::Hurried& hurried, int64_t step) const;

  Session& session_;
  std::string folder_, against_;
  analysis::Judge judge_;
};

// Runs `verify --case`. Throws NumericError if the case is still wrong.
void run_case(const VerifyArguments& arguments);

// Runs `verify --gradients`. Throws NumericError if a gradient is wrong.
void verify_gradients(const VerifyArguments& arguments);

// Opens the device of the plugin that defines what every operation computes.
std::shared_ptr<plugins::host::Device> open_definition(const config::Config& config,
                                                       const plugins::host::Registry& registry);

// Returns, for example, "[0, 3, 1]: expected 0.25, actual nan".
std::string element_text(const analysis::Verdict& verdict);
nlohmann::ordered_json to_json(const analysis::Verdict& verdict);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_VERIFY_H_
