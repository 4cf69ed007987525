// What the forms of `runtime verify` share: the search for the operation that is at fault, and
// cases that are run again.
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

// `verify --reduce`: from steps that differ to a case in a folder.
class Reducer {
 public:
  // What the search has found out, for people and for programs.
  struct Finding {
    std::string text;
    nlohmann::ordered_json json;
  };

  // Throws ConfigurationError unless a case can be written to the folder.
  Reducer(Session& session, std::string folder, std::string against);

  // After a step was compared; `equal`: with no difference. nullopt: there is nothing wrong with
  // it.
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

// `verify --case`.
void run_case(const VerifyArguments& arguments);

// The device of the plugin that defines what every operation computes.
std::shared_ptr<plugins::host::Device> open_definition(const config::Config& config,
                                                       const plugins::host::Registry& registry);

// "[0, 3, 1]: expected 0.25, actual nan"
std::string element_text(const analysis::Verdict& verdict);
nlohmann::ordered_json to_json(const analysis::Verdict& verdict);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_VERIFY_H_
