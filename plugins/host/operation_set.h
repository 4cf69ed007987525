// The operations that a plugin brings (rt/operation_set.h) as C++ values.
#ifndef PLUGINS_HOST_OPERATION_SET_H_
#define PLUGINS_HOST_OPERATION_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/host/operation.h"
#include "rt/operation_set.h"

namespace plugins::host {

// A key of a plugin or an attribute of one of its operations; see rt_option_spec.
struct OptionSpec {
  std::string key, default_value, description;
  int32_t type = 0;
};

// A learned parameter of a layer; see rt_parameter_spec.
struct ParameterSpec {
  std::string name, description;
  int32_t init = RT_INIT_MODEL;
  double value = 0;
};

// One operation, checked: names and counts are within limits.h, and what the kind forbids is
// absent. Whether signature and formulas can be read, graph/ finds out when a model uses them.
struct OperationSpec {
  std::string name;  // without the plugin's
  int32_t kind = 0;  // RT_OPERATION_LAYER or RT_OPERATION_OPTIMIZER
  uint32_t flags = 0;
  std::string signature;
  std::string formula, gradient;  // "": none
  std::string description;
  std::vector<OptionSpec> attributes;
  std::vector<ParameterSpec> parameters;
};

// Copies an option description. Throws Error (RT_ERROR_INVALID_ARGUMENT) if it is incomplete.
OptionSpec copy_option(const rt_option_spec* spec, const std::string& who);

// Copies and checks the specs of a table; `self` is rt_plugin.self. Throws Error, which begins with
// `who` and names the operation and the field.
std::vector<OperationSpec> copy_operations(const rt_operations_api& table, void* self,
                                           const std::string& who);

// Calls the `shape` of the operation `name` of a table, which has no formula: the dims of its
// output. `op` has the inputs and the attributes, `self` is rt_plugin.self. Throws Error, which
// begins with `who`.
std::vector<int64_t> output_dims(const rt_operations_api& table, void* self, const std::string& who,
                                 const std::string& name, const Operation& op);

// Checks what copy_operations() promises, for specs that come from another process. Throws Error.
void check_operation(const OperationSpec& spec, const std::string& who);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_OPERATION_SET_H_
