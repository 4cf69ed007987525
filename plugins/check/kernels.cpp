// The conformance cases of each operation as a check.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plugins/check/check.h"
#include "plugins/check/models.h"
#include "plugins/conformance/conformance.h"
#include "rt/operations.h"
#include "rt/sdk/definitions.h"

namespace plugins::check {

namespace {

constexpr size_t kQuickCases = 6;  // of each type
constexpr size_t kShownFailures = 3;

std::vector<conformance::Case> cases_of(Context& context, const std::string& operation) {
  std::vector<conformance::Case> cases = conformance::cases_of(operation, *context.device());
  if (!context.setup().quick) return cases;
  std::map<rt_dtype, size_t> taken;
  std::erase_if(cases, [&](const conformance::Case& c) { return ++taken[c.dtype] > kQuickCases; });
  return cases;
}

std::string first_of(const std::vector<std::string>& texts) {
  std::string text;
  for (size_t i = 0; i < texts.size() && i < kShownFailures; ++i) text += "\n" + texts[i];
  if (texts.size() > kShownFailures)
    text += fmt::format("\nand {} more", texts.size() - kShownFailures);
  return text;
}

std::string agrees_with_the_reference(Context& context, const std::string& operation) {
  context.kernel_api();
  const std::vector<conformance::Case> cases = cases_of(context, operation);
  const conformance::Summary summary =
      run_cases(*context.device(), *context.reference(), cases, conformance::Mandatory::kSkipped);
  if (summary.failed > 0) {
    throw Fault(fmt::format("{} of {} cases failed:{}", summary.failed, cases.size(),
                            first_of(summary.failures)));
  }
  if (summary.passed == 0) {
    throw Skip(summary.skips.empty() ? "the device computes in none of the types of the cases"
                                     : "refused: " + summary.skips.front());
  }
  return fmt::format("{} cases in {} ways{}", summary.passed, summary.candidates,
                     summary.skipped > 0 ? fmt::format(", {} refused", summary.skipped) : "");
}

bool is_refused(host::Device& device, const conformance::Case& c) {
  return (c.forward && device.query(*c.forward).level == RT_SUPPORT_REFUSED) ||
         device.query(c.operation).level == RT_SUPPORT_REFUSED;
}

// Whether the case belongs to the base set of plugins/operations.md.
bool is_basic(const conformance::Case& c) {
  const auto& attributes = c.operation.attributes;
  const bool slice = std::any_of(attributes.begin(), attributes.end(), [](const auto& attribute) {
    return attribute.name == RT_ATTR_FIRST_ROW;
  });
  const bool base = rt::sdk::has_trait(c.operation.name, rt::sdk::Definition::kBase);
  return c.operation.post_ops.empty() && (c.mandatory || (base && !slice));
}

// One of the functions of `activation` that are in the base set but not mandatory.
conformance::Case function_case(const char* name, int32_t function, rt_dtype dtype) {
  conformance::Case c;
  c.name = std::string("activation ") + name;
  c.operation.name = RT_OP_ACTIVATION;
  c.operation.inputs = c.operation.outputs = {host::make_tensor_desc(dtype, {8})};
  c.operation.attributes = {{RT_ATTR_FUNCTION, int64_t{function}}};
  c.dtype = dtype;
  return c;
}

std::string supports_the_base_set(Context& context) {
  context.kernel_api();
  host::Device& device = *context.device();
  const bool single = (device.properties().compute_dtypes & RT_DTYPE_BIT(RT_FLOAT32)) != 0;
  const rt_dtype dtype = single ? RT_FLOAT32 : RT_FLOAT64;
  std::vector<conformance::Case> cases = conformance::all_cases();
  std::erase_if(cases, [&](const auto& c) { return c.dtype != dtype || !is_basic(c); });
  cases.push_back(function_case("exp", RT_ACTIVATION_EXP, dtype));
  cases.push_back(function_case("log", RT_ACTIVATION_LOG, dtype));
  cases.push_back(function_case("sqrt", RT_ACTIVATION_SQRT, dtype));
  cases.push_back(function_case("reciprocal", RT_ACTIVATION_RECIPROCAL, dtype));
  std::vector<std::string> lacking;
  for (const conformance::Case& c : cases)
    if (is_refused(device, c)) lacking.push_back(c.name);
  if (!lacking.empty()) throw Skip("refused:" + first_of(lacking));
  return fmt::format("{} forms in {}", cases.size(), single ? "float32" : "float64");
}

}  // namespace

void add_kernel_checks(std::vector<Check>& checks) {
  checks.push_back({"kernels", kBaseSet, supports_the_base_set});
  for (const std::string& operation : conformance::covered_operations()) {
    checks.push_back({"kernels", operation, [operation](Context& context) {
                        return agrees_with_the_reference(context, operation);
                      }});
  }
}

}  // namespace plugins::check
