// Checks of plugins that bring operations. What their formulas compute only the runtime knows,
// which reads them when a model uses them: `runtime verify CONFIG --gradients`.
#include <fmt/format.h>

#include <charconv>
#include <future>

#include "plugins/check/probing.h"
#include "plugins/host/operation_set.h"

namespace plugins::check {

namespace {

std::vector<host::OperationSpec> specs_of(Context& context) {
  const rt_operations_api* const api = context.plugin()->operations_api();
  if (api == nullptr) throw Skip("the plugin brings no operations (rt.operations)");
  return host::copy_operations(*api, context.plugin()->plain_self(), context.plugin()->name());
}

std::string describe_themselves(Context& context) {
  const auto specs = specs_of(context);
  require(!specs.empty(), "the plugin offers rt.operations and has none");
  std::string text;
  for (const host::OperationSpec& spec : specs) {
    require(!spec.description.empty(), spec.name + " has no description");
    text += fmt::format("{}{}.{} ({})", text.empty() ? "" : ", ", context.plugin()->name(),
                        spec.name, spec.kind == RT_OPERATION_LAYER ? "layer" : "optimizer");
  }
  return text + "; `runtime verify CONFIG --gradients` tries what they compute";
}

template <typename Number>
bool is_number(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_value(const std::string& text, int32_t type) {
  if (type == RT_OPTION_BOOLEAN) return text == "true" || text == "false";
  if (type == RT_OPTION_INTEGER) return is_number<int64_t>(text);
  return is_number<double>(text);
}

std::string have_good_defaults(Context& context) {
  for (const host::OperationSpec& spec : specs_of(context)) {
    for (const host::OptionSpec& key : spec.attributes) {
      require(
          key.type != RT_OPTION_STRING,
          fmt::format("{}: the key '{}' is a text; attributes are booleans, integers and numbers",
                      spec.name, key.key));
      require(key.default_value.empty() || is_value(key.default_value, key.type),
              fmt::format("{}: the key '{}' has the default \"{}\", which is no value of its type",
                          spec.name, key.key, key.default_value));
    }
  }
  return "";
}

// Returns the answer of `shape` as a text: the dims, or the code of its error.
std::string answer(const rt_operation_spec& spec, void* self, const std::string& name,
                   const host::Operation& inputs, uint32_t size = sizeof(rt_op_desc)) {
  host::Operation operation = inputs;
  operation.name = name;
  const host::OperationView view(operation);
  rt_op_desc desc = *view.get();
  desc.size = size;
  desc.outputs = nullptr;
  desc.output_count = 0;
  Grown<rt_tensor_desc> output;
  output.value.size = sizeof(rt_tensor_desc);
  const rt_status status = status_of(name + ": shape", [&](rt_error* error) {
    return spec.shape(self, &desc, &output.value, error);
  });
  require(!output.written_beyond(sizeof(rt_tensor_desc)),
          name + ": shape wrote behind the rt_tensor_desc of the host");
  if (status != RT_OK) return host::status_name(status);
  require(output.value.rank >= 0 && output.value.rank <= RT_MAX_RANK,
          fmt::format("{}: shape answers the rank {}", name, output.value.rank));
  require(!inputs.inputs.empty(), name + ": shape took a description without inputs");
  require(output.value.dtype == inputs.inputs.at(0).dtype,
          name + ": shape answers another type than that of the first input");
  std::string dims;
  for (int32_t i = 0; i < output.value.rank; ++i) {
    require(output.value.dims[i] >= 0,
            fmt::format("{}: shape answers the dimension {}", name, output.value.dims[i]));
    dims += fmt::format(" {}", output.value.dims[i]);
  }
  return dims;
}

bool is_dims(const std::string& answered) { return answered.empty() || answered.front() == ' '; }

// Inputs of one to four tensors of some shapes. Which ones the operation takes, it says itself.
std::vector<host::Operation> tried_inputs() {
  std::vector<host::Operation> list(1);  // the first one has none
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{8}, {4, 8}, {2, 4, 8}, {2, 6, 6, 8}, {0, 8}}) {
    for (size_t count = 1; count <= 4; ++count) {
      host::Operation operation;
      operation.inputs.assign(count, host::make_tensor_desc(RT_FLOAT32, {dims.back()}));
      operation.inputs[0] = host::make_tensor_desc(RT_FLOAT32, dims);
      list.push_back(std::move(operation));
    }
  }
  return list;
}

struct Tried {
  int forms = 0, taken = 0;
};

Tried try_shape(const rt_operation_spec& spec, void* self, const std::string& name) {
  Tried tried;
  for (const host::Operation& inputs : tried_inputs()) {
    const std::string first = answer(spec, self, name, inputs);
    const std::string second =
        std::async(std::launch::async, [&] { return answer(spec, self, name, inputs); }).get();
    require(first == second, fmt::format("{}: shape answers{} and then{} to the same question",
                                         name, first, second));
    ++tried.forms;
    if (!is_dims(first)) continue;
    ++tried.taken;
    require(!is_dims(answer(spec, self, name, inputs, RT_OP_DESC_SIZE_V1 - 8)),
            name + ": shape took an rt_op_desc that is shorter than in the first release");
  }
  return tried;
}

std::string answer_shapes(Context& context) {
  specs_of(context);
  void* const self = context.plugin()->plain_self();
  uint32_t count = 0;
  const rt_operation_spec* const* specs = context.plugin()->operations_api()->specs(self, &count);
  Tried all;
  for (uint32_t i = 0; i < count; ++i) {
    if (specs[i]->shape == nullptr) continue;
    const Tried tried = try_shape(*specs[i], self, context.plugin()->name() + "." + specs[i]->name);
    all.forms += tried.forms;
    all.taken += tried.taken;
  }
  if (all.forms == 0) throw Skip("every operation has a formula, which tells its shape");
  return fmt::format("{} of {} forms taken", all.taken, all.forms);
}

}  // namespace

void add_operation_set_checks(std::vector<Check>& checks) {
  const auto add = [&](const char* name, std::string (*body)(Context&)) {
    checks.push_back({"operations", name, body});
  };
  add("describe themselves", describe_themselves);
  add("have keys whose defaults are values of their types", have_good_defaults);
  add("answer what shape their output has, and refuse other inputs", answer_shapes);
}

}  // namespace plugins::check
