// A layer and an optimizer, written as formulas that every device can run. The language is in
// plugins/operations.md of the runtime, "Operations of a plugin".
#include "rt/sdk/plugin.h"

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

rt::sdk::PluginDescription description() {
  return {.name = "template_operation",  // what the names of layers and optimizers begin with
          .vendor = "your name",
          .version = RUNTIME_PLUGIN_VERSION,
          .build_id = "template_operation-" RUNTIME_PLUGIN_VERSION,
          .description = "a layer and an optimizer to start from",
          .operations = &kOperations};
}

}  // namespace
}  // namespace template_operation

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  return rt::sdk::make_plugin(template_operation::description, host, negotiation, plugin, error);
}
