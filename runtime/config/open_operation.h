// Types of layers and optimizers that plugins bring, as the loader of a configuration gets them.
#ifndef RUNTIME_CONFIG_OPEN_OPERATION_H_
#define RUNTIME_CONFIG_OPEN_OPERATION_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/config/schema.h"
#include "runtime/config/value.h"

namespace runtime::config {

// The values of an operation's attributes, by name; a boolean is 0 or 1.
using AttributeValues = std::map<std::string, std::variant<int64_t, double>>;

// A learned parameter of a layer.
struct OpenParameter {
  std::string name;       // of an operand of the signature
  bool constant = false;  // every element begins with `value`, whatever `init` says
  double value = 0;
};

// An operation of a plugin, see plugins/include/rt/operation_set.h, or a layer of the runtime that
// is a formula. Its texts are not read here.
struct OpenOperation {
  std::string name;  // "<plugin>.<name>", or "core.<name>"
  std::string signature, formula, gradient = {}, documentation;
  bool has_backward = false;
  std::vector<Key> attributes;
  std::vector<OpenParameter> parameters;
  // The dims of the output, where there is no formula: asks the plugin, and throws what it throws.
  std::function<std::vector<int64_t>(const std::vector<std::vector<int64_t>>& inputs, int32_t dtype,
                                     const AttributeValues& attributes)>
      shape = {};
};
using SharedOperation = std::shared_ptr<const OpenOperation>;

// What plugins add to the types of a configuration.
struct OpenTypes {
  LayerTypes layers;  // LayerType::operation is set
  std::vector<SharedOperation> optimizers;
};

// Returns what the plugins in the standard places and in these folders and files bring. The loader
// calls it only if a configuration uses a name with a dot.
using FindOpenTypes = std::function<OpenTypes(const std::vector<std::string>& plugin_path)>;

// Gives what plugins brought to this configuration, so that its text can be loaded again.
FindOpenTypes open_types_of(const Config& config);

// Throws ConfigurationError unless the key's default is empty or a value that the key may have.
void check_default(const Key& key);

// The attributes in `values`, which check_value() has accepted, or their defaults.
AttributeValues read_attributes(const OpenOperation& operation,
                                const std::map<std::string, Value>& values);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_OPEN_OPERATION_H_
