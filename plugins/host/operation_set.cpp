// Copies the operations of a plugin, and refuses names, numbers and defaults that cannot be.
#include "plugins/host/operation_set.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "plugins/host/call.h"
#include "plugins/host/limits.h"

namespace plugins::host {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& fault) {
  throw Error(RT_ERROR_INVALID_ARGUMENT, what + ": " + fault + "; the plugin has to be corrected");
}

std::string text_of(const char* text, std::size_t longest, const std::string& what) {
  return text == nullptr ? "" : checked_text(text, longest, what);
}

// A formula may have several lines, which printable() would take for control characters.
std::string formula_of(const char* formula, const std::string& what) {
  if (formula == nullptr) return "";
  std::string text(formula, strnlen(formula, kMaxFormulaLength + 1));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return checked_text(text.c_str(), kMaxFormulaLength, what);
}

std::string required(const char* text, std::size_t longest, const std::string& what) {
  if (text == nullptr || *text == '\0') refuse(what, "is empty, expected a text");
  return checked_text(text, longest, what);
}

ParameterSpec copy_parameter(const rt_parameter_spec* spec, const std::string& who) {
  if (spec == nullptr || spec->size < RT_PARAMETER_SPEC_SIZE_V1) {
    refuse(who + ": a parameter",
           "is NULL or shorter than " + std::to_string(RT_PARAMETER_SPEC_SIZE_V1) + " bytes");
  }
  return {required(spec->name, kMaxNameLength, who + ": the name of a parameter"),
          text_of(spec->description, kMaxTextLength, who + ": the description of a parameter"),
          spec->init, spec->value};
}

template <typename Each>
void for_count(const void* list, uint32_t count, uint32_t most, const std::string& what,
               Each&& each) {
  check_count(count, most, what);
  if (count > 0 && list == nullptr) refuse(what, "are NULL, but " + std::to_string(count));
  for (uint32_t i = 0; i < count; ++i) each(i);
}

// The bytes of the plugin's struct that both sides know.
rt_operation_spec known_part(const rt_operation_spec* offered, const std::string& who) {
  if (offered == nullptr || offered->size < RT_OPERATION_SPEC_SIZE_V1) {
    refuse(who + ": an operation",
           "is NULL or shorter than " + std::to_string(RT_OPERATION_SPEC_SIZE_V1) + " bytes");
  }
  rt_operation_spec spec{};
  std::memcpy(&spec, offered, std::min<std::size_t>(offered->size, sizeof(spec)));
  return spec;
}

OperationSpec copy_operation(const rt_operation_spec* offered, const std::string& plugin) {
  const rt_operation_spec spec = known_part(offered, plugin);
  OperationSpec copy;
  copy.name = required(spec.name, kMaxNameLength, plugin + ": the name of an operation");
  const std::string who = plugin + ": operation " + copy.name;
  copy.kind = spec.kind;
  copy.flags = spec.flags;
  copy.signature = required(spec.signature, kMaxTextLength, who + ": signature");
  copy.formula = formula_of(spec.formula, who + ": formula");
  copy.gradient = formula_of(spec.gradient, who + ": gradient");
  copy.description = required(spec.description, kMaxTextLength, who + ": description");
  for_count(spec.attributes, spec.attribute_count, kMaxAttributes, who + ": attributes",
            [&](uint32_t i) { copy.attributes.push_back(copy_option(spec.attributes[i], who)); });
  for_count(
      spec.parameters, spec.parameter_count, kMaxParameters, who + ": parameters",
      [&](uint32_t i) { copy.parameters.push_back(copy_parameter(spec.parameters[i], who)); });
  check_operation(copy, plugin);
  if (copy.formula.empty() != (spec.shape != nullptr))
    refuse(who, "needs exactly one of `formula` and `shape`");
  return copy;
}

void check_numbers(const OperationSpec& spec, const std::string& who) {
  if (spec.kind != RT_OPERATION_LAYER && spec.kind != RT_OPERATION_OPTIMIZER)
    refuse(who, "is of the unknown kind " + std::to_string(spec.kind));
  for (const OptionSpec& a : spec.attributes) {
    if (a.type != RT_OPTION_BOOLEAN && a.type != RT_OPTION_INTEGER && a.type != RT_OPTION_NUMBER)
      refuse(who, "attribute '" + a.key + "' is no boolean, integer or number");
  }
  for (const ParameterSpec& p : spec.parameters) {
    if (p.init != RT_INIT_MODEL && p.init != RT_INIT_CONSTANT)
      refuse(who, "parameter '" + p.name + "' has the unknown init " + std::to_string(p.init));
    if (!std::isfinite(p.value)) refuse(who, "parameter '" + p.name + "' begins with no number");
  }
}

void check_names(const OperationSpec& spec, const std::string& who) {
  std::set<std::string> seen;
  const auto add = [&](const std::string& name) {
    check_name(name, who + ": an attribute or parameter");
    if (!seen.insert(name).second) refuse(who, "has two operands called '" + name + "'");
  };
  for (const OptionSpec& a : spec.attributes) add(a.key);
  for (const ParameterSpec& p : spec.parameters) add(p.name);
  for (const char* suffix : {"_backward", "_update"}) {
    if (spec.name.ends_with(suffix))
      refuse(who, std::string("ends with ") + suffix + ", which is for the core to append");
  }
}

const rt_operation_spec* const* specs_of(const rt_operations_api& table, void* self,
                                         uint32_t& count, const std::string& who) {
  const rt_operation_spec* const* specs = nullptr;
  call([&] { return who + ": specs of rt.operations"; },
       [&](rt_error*) {
         specs = table.specs(self, &count);
         return RT_OK;
       });
  if (specs == nullptr) count = 0;
  check_count(count, kMaxOperations, who + ": operations");
  return specs;
}

}  // namespace

void check_operation(const OperationSpec& spec, const std::string& plugin) {
  check_name(spec.name, plugin + ": an operation");
  const std::string who = plugin + ": operation " + spec.name;
  check_numbers(spec, who);
  check_names(spec, who);
  const bool backward = (spec.flags & RT_OPERATION_HAS_BACKWARD) != 0;
  if (backward && (!spec.formula.empty() || !spec.gradient.empty()))
    refuse(who, "has RT_OPERATION_HAS_BACKWARD beside a formula, of which the gradient follows");
  if (spec.kind == RT_OPERATION_LAYER) return;
  if (spec.formula.empty() || !spec.gradient.empty() || !spec.parameters.empty() || backward)
    refuse(who, "is an optimizer, which has a formula and neither gradient nor parameters");
}

OptionSpec copy_option(const rt_option_spec* spec, const std::string& who) {
  if (spec == nullptr || spec->size < RT_OPTION_SPEC_SIZE_V1 || spec->key == nullptr ||
      spec->default_value == nullptr || spec->description == nullptr ||
      spec->type < RT_OPTION_BOOLEAN || spec->type > RT_OPTION_STRING) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                who +
                    ": one of its option descriptions is too short, has an empty text or an "
                    "unknown type");
  }
  const auto text = [&](const char* value) {
    return checked_text(value, kMaxTextLength, who + ": an option description");
  };
  return {text(spec->key), text(spec->default_value), text(spec->description), spec->type};
}

std::vector<OperationSpec> copy_operations(const rt_operations_api& table, void* self,
                                           const std::string& who) {
  uint32_t count = 0;
  const rt_operation_spec* const* const specs = specs_of(table, self, count, who);
  std::vector<OperationSpec> operations;
  std::set<std::string> names;
  for (uint32_t i = 0; i < count; ++i) {
    operations.push_back(copy_operation(specs[i], who));
    if (!names.insert(operations.back().name).second)
      refuse(who, "has two operations called '" + operations.back().name + "'");
  }
  return operations;
}

std::vector<int64_t> output_dims(const rt_operations_api& table, void* self,
                                 const std::string& plugin, const std::string& name,
                                 const Operation& op) {
  const std::string who = plugin + ": shape of operation " + name;
  uint32_t count = 0;
  const auto* const specs = specs_of(table, self, count, who);
  for (uint32_t i = 0; i < count; ++i) {
    const rt_operation_spec spec = known_part(specs[i], who);
    if (name != spec.name || spec.shape == nullptr) continue;
    rt_tensor_desc output = make_tensor_desc(op.inputs.at(0).dtype, {});
    const OperationView view(op);
    call([&] { return std::string(who); },
         [&](rt_error* e) { return spec.shape(self, view.get(), &output, e); });
    check_count(output.rank, RT_MAX_RANK, who + ": rank");
    for (int32_t d = 0; d < output.rank; ++d)
      check_count(output.dims[d], kMaxBytes, who + ": a dimension");
    if (output.dtype != op.inputs[0].dtype) refuse(who, "answers another type than its input's");
    return {output.dims, output.dims + output.rank};
  }
  refuse(who, "has no function `shape`");
}

}  // namespace plugins::host
