// Makes keys and layer types of what installed plugins describe.
#include "runtime/train/open_types.h"

#include "plugins/host/operation_set.h"
#include "plugins/host/registry.h"
#include "runtime/error.h"
#include "runtime/model/layer_types.h"

namespace runtime::train {

namespace {

using plugins::host::OperationSpec;
using plugins::host::OptionSpec;
using plugins::host::Registry;
using SharedRegistry = std::shared_ptr<const Registry>;

config::Type type_of(int32_t type) {
  switch (type) {
    case RT_OPTION_BOOLEAN:
      return config::Type::kBoolean;
    case RT_OPTION_INTEGER:
      return config::Type::kInteger;
    default:
      return config::Type::kNumber;
  }
}

config::Key key_of(const OptionSpec& spec, const std::string& operation) {
  config::Key key = {.name = spec.key,
                     .type = type_of(spec.type),
                     .default_text = spec.default_value,
                     .required = spec.default_value.empty(),
                     .documentation = spec.description};
  try {
    config::check_default(key);
  } catch (const ConfigurationError& e) {
    throw DeviceError("operation " + operation + ": the default of its attribute '" + spec.key +
                      "' is wrong: " + e.what() + "; the plugin has to be corrected");
  }
  return key;
}

// Asks the plugin, which is opened at the first call, for the dims of an operation's output.
std::vector<int64_t> ask_shape(const Registry& registry, const std::string& plugin,
                               const std::string& name,
                               const std::vector<std::vector<int64_t>>& inputs, int32_t dtype,
                               const config::AttributeValues& attributes) {
  plugins::host::Operation op;
  op.name = plugin + "." + name;
  for (const auto& dims : inputs) op.inputs.push_back(plugins::host::make_tensor_desc(dtype, dims));
  for (const auto& [key, value] : attributes) op.attributes.push_back({key, value});
  return registry.open(plugin)->output_dims(name, op);
}

config::SharedOperation to_config(const SharedRegistry& registry, const std::string& plugin,
                                  const OperationSpec& spec) {
  auto made = std::make_shared<config::OpenOperation>();
  made->name = plugin + "." + spec.name;
  made->signature = spec.signature;
  made->formula = spec.formula;
  made->gradient = spec.gradient;
  made->documentation = spec.description;
  made->has_backward = (spec.flags & RT_OPERATION_HAS_BACKWARD) != 0;
  for (const OptionSpec& a : spec.attributes) made->attributes.push_back(key_of(a, made->name));
  for (const auto& p : spec.parameters)
    made->parameters.push_back({p.name, p.init == RT_INIT_CONSTANT, p.value});
  if (!spec.formula.empty()) return made;
  made->shape = [registry, plugin, name = spec.name](const auto& inputs, int32_t dtype,
                                                     const auto& attributes) {
    return ask_shape(*registry, plugin, name, inputs, dtype, attributes);
  };
  return made;
}

config::OpenTypes types_of(const SharedRegistry& registry) {
  config::OpenTypes open;
  std::vector<config::SharedOperation> layers;
  for (const plugins::host::PluginDescription& plugin : registry->plugins()) {
    for (const OperationSpec& spec : plugin.operations) {
      auto& list = spec.kind == RT_OPERATION_LAYER ? layers : open.optimizers;
      list.push_back(to_config(registry, plugin.name, spec));
    }
  }
  open.layers = model::open_layer_types(layers);
  return open;
}

}  // namespace

config::FindOpenTypes find_open_types(const plugins::host::HostServices& services) {
  return [services](const std::vector<std::string>& plugin_path) {
    const auto registry = std::make_shared<const Registry>(
        plugins::host::SearchPath::standard({plugin_path.begin(), plugin_path.end()}), services);
    registry->log_rejections();
    return types_of(registry);
  };
}

}  // namespace runtime::train
