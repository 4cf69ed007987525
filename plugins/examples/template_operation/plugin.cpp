// A layer and an optimizer, written as formulas that every device can run. The language is in
// plugins/operations.md of the runtime, "Operations of a plugin".
#include "rt/sdk/plugin.h"

#include <cstring>

#include "rt/operation_set.h"

namespace template_operation {
namespace {

// { type = "template_operation.scaled_tanh", slope = 0.5 }
constexpr rt_option_spec kSlope = {sizeof(rt_option_spec), RT_OPTION_NUMBER, "slope", "1",
                                   "slope at 0"};
constexpr const rt_option_spec* kLayerAttributes[] = {&kSlope};
constexpr rt_parameter_spec kScale = {sizeof(rt_parameter_spec), RT_INIT_CONSTANT, "scale",
                                      "largest value of each feature", 1};
constexpr const rt_parameter_spec* kLayerParameters[] = {&kScale};

rt_operation_spec make_layer() {
  rt_operation_spec spec{};
  spec.size = sizeof(spec);
  spec.kind = RT_OPERATION_LAYER;
  spec.name = "scaled_tanh";
  spec.signature = "x[R*,D] scale[D] {slope} -> y[R*,D]";
  spec.formula = "y = scale * tanh(slope * x)";
  // Without `gradient` the core derives it from the formula.
  spec.description = "The hyperbolic tangent with a learned scale for each feature.";
  spec.attributes = kLayerAttributes;
  spec.attribute_count = 1;
  spec.parameters = kLayerParameters;
  spec.parameter_count = 1;
  return spec;
}

// [optimizer] name = "template_operation.descent"
rt_operation_spec make_optimizer() {
  rt_operation_spec spec{};
  spec.size = sizeof(spec);
  spec.kind = RT_OPERATION_OPTIMIZER;
  spec.name = "descent";
  spec.signature = "p[E*] g[E*] lr[1] -> p[E*]";
  spec.formula = "p = p - lr * g";
  spec.description = "Plain gradient descent.";
  return spec;
}

const rt_operation_spec kLayer = make_layer(), kOptimizer = make_optimizer();
const rt_operation_spec* const kSpecs[] = {&kLayer, &kOptimizer};

constexpr rt_operations_api kOperations = {
    sizeof(rt_operations_api), RT_OPERATIONS_API_VERSION, [](void*, uint32_t* count) {
      *count = 2;
      return static_cast<const rt_operation_spec* const*>(kSpecs);
    }};

const void* get_interface(void*, const char* name, uint32_t version) {
  const bool known =
      std::strcmp(name, RT_INTERFACE_OPERATIONS) == 0 && version == RT_OPERATIONS_API_VERSION;
  return known ? &kOperations : nullptr;
}

rt_plugin make_plugin() {
  rt_plugin plugin{};
  plugin.size = sizeof(plugin);
  plugin.name = "template_operation";  // what the names of layers and optimizers begin with
  plugin.vendor = "your name";
  plugin.version = RUNTIME_PLUGIN_VERSION;
  plugin.build_id = "template_operation-" RUNTIME_PLUGIN_VERSION;
  plugin.description = "a layer and an optimizer to start from";
  plugin.get_interface = get_interface;
  plugin.options = rt::sdk::no_options;
  plugin.shutdown = [](void*) {};  // the plugin has no state
  return plugin;
}

const rt_plugin kPlugin = make_plugin();

}  // namespace
}  // namespace template_operation

extern "C" rt_status rt_plugin_entry(const rt_host*, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  return rt::sdk::guard(error, [&] {
    rt::sdk::negotiate(negotiation, "template_operation");
    *plugin = &template_operation::kPlugin;
  });
}
