// Operations without a formula, of which one function is broken as the environment variable
// RUNTIME_MUTANT says.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "rt/operation_set.h"
#include "rt/sdk/operation.h"
#include "rt/sdk/plugin.h"

namespace {

bool is(std::string_view name) {
  const char* const mutant = std::getenv("RUNTIME_MUTANT");
  return mutant != nullptr && name == mutant;
}

// One of two inputs of the same dims.
rt_status shape(void*, const rt_op_desc* desc, rt_tensor_desc* output, rt_error* error) {
  static std::atomic<int> calls{0};
  if (is("reads_without_looking")) return *output = *desc->inputs[1], RT_OK;
  return rt::sdk::guard(error, [&] {
    if (is("throws_without_words")) throw rt::sdk::Error(RT_ERROR_INVALID_ARGUMENT, "");
    rt_op_desc known = *desc;
    if (is("takes_short_structs")) known.size = sizeof(known);
    const rt::sdk::Operation op(is("takes_short_structs") ? &known : desc);
    if (op.input_count() != 2) op.fail("expected two inputs");
    rt_tensor_desc answer = op.input(0);
    if (is("answers_another_type")) answer.dtype = RT_INT8;
    if (is("answers_negative_dims")) answer.dims[0] = -1;
    if (is("answers_a_large_rank")) answer.rank = RT_MAX_RANK + 1;
    if (is("counts_its_calls")) answer.dims[0] += calls++;
    rt::sdk::write_output(output, answer);
  });
}

rt_option_spec scale = {sizeof(rt_option_spec), RT_OPTION_NUMBER, "scale", "1", "a factor"};
const rt_option_spec* const kAttributes[] = {&scale};

rt_operation_spec spec() {
  rt_operation_spec made{};
  made.size = sizeof(made);
  made.kind = RT_OPERATION_LAYER;
  made.name = "either";
  made.signature = "x other {scale} -> y";
  made.description = is("describes_nothing") ? "" : "One of two inputs.";
  made.attributes = kAttributes;
  made.attribute_count = 1;
  made.flags = RT_OPERATION_HAS_BACKWARD;
  made.shape = shape;
  return made;
}

rt_operation_spec either;
const rt_operation_spec* const kSpecs[] = {&either, &either};

const rt_operations_api kOperations = {
    sizeof(rt_operations_api), RT_OPERATIONS_API_VERSION, [](void*, uint32_t* count) {
      *count = is("has_an_operation_twice") ? 2 : 1;
      if (is("has_none")) *count = 0;
      return static_cast<const rt_operation_spec* const*>(kSpecs);
    }};

rt_plugin plugin;

}  // namespace

RT_PLUGIN_EXPORT rt_status rt_plugin_entry(const rt_host*, rt_negotiation* negotiation,
                                           const rt_plugin** result, rt_error* error) {
  return rt::sdk::guard(error, [&] {
    rt::sdk::negotiate(negotiation, "mutant_operations");
    if (is("has_a_wrong_default")) scale.default_value = "large";
    either = spec();
    plugin.size = sizeof(plugin);
    plugin.name = "mutant_operations";
    plugin.vendor = plugin.version = plugin.build_id = "tests";
    plugin.description = "an operation without a formula";
    plugin.get_interface = [](void*, const char* name, uint32_t version) -> const void* {
      return std::string_view(name) == RT_INTERFACE_OPERATIONS && version == 1 ? &kOperations
                                                                               : nullptr;
    };
    plugin.options = rt::sdk::no_options;
    plugin.shutdown = [](void*) {};
    *result = &plugin;
  });
}
