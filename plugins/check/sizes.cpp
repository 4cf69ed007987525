// Checks of the rules of sizes: structs of hosts that are older or newer than the plugin.
#include <fmt/format.h>

#include <cstring>

#include "plugins/check/check.h"
#include "plugins/check/grown.h"
#include "plugins/check/probing.h"
#include "plugins/host/error.h"
#include "rt/operations.h"

namespace plugins::check {

namespace {

std::string inputs_of_open(Context& context) {
  context.device();
  const rt_device_api& api = context.device_api();
  Grown<rt_device_options> options;
  check_input("rt_device_options", options, RT_DEVICE_OPTIONS_SIZE_V1, [&](rt_error* error) {
    rt_device* device = nullptr;
    const rt_status status =
        api.open(context.plugin()->self(), context.setup().device, &options.value, &device, error);
    if (status == RT_OK) api.close(device);
    return status;
  });
  return "";
}

std::string outputs_of_devices(Context& context) {
  const auto device = context.device();
  const rt_device_api& api = context.device_api();
  check_output<rt_device_properties>(
      "properties", RT_DEVICE_PROPERTIES_SIZE_V1,
      [&](rt_device_properties* properties, rt_error* error) {
        return api.properties(context.plugin()->self(), context.setup().device, properties, error);
      });
  check_output<rt_memory_info>("memory_info", RT_MEMORY_INFO_SIZE_V1,
                               [&](rt_memory_info* info, rt_error* error) {
                                 return api.memory_info(device->get(), info, error);
                               });
  if (api.utilisation == nullptr) return "";
  check_output<rt_utilisation>("utilisation", RT_UTILISATION_SIZE_V1,
                               [&](rt_utilisation* load, rt_error* error) {
                                 return api.utilisation(device->get(), load, error);
                               });
  return "";
}

// A description whose every struct can grow: one input, one output, one attribute.
struct GrownOperation {
  explicit GrownOperation(const host::Operation& operation) {
    name = operation.name;
    input.value = operation.inputs.at(0);
    output.value = operation.outputs.at(0);
    attribute.value.type = RT_ATTRIBUTE_NUMBER;
    attribute.value.name = RT_ATTR_ALPHA;
    attribute.value.number = 2.0;
    desc.value.name = name.c_str();
    desc.value.inputs = inputs;
    desc.value.outputs = outputs;
    desc.value.attributes = attributes;
    desc.value.input_count = desc.value.output_count = desc.value.attribute_count = 1;
    input.value.size = output.value.size = sizeof(rt_tensor_desc);
    attribute.value.size = sizeof(rt_attribute);
    desc.value.size = sizeof(rt_op_desc);
  }
  GrownOperation(const GrownOperation&) = delete;
  GrownOperation& operator=(const GrownOperation&) = delete;

  std::string name;
  Grown<rt_op_desc> desc;
  Grown<rt_tensor_desc> input, output;
  Grown<rt_attribute> attribute;
  const rt_tensor_desc* inputs[1] = {&input.value};
  const rt_tensor_desc* outputs[1] = {&output.value};
  const rt_attribute* attributes[1] = {&attribute.value};
};

// y = 2 x on eight numbers, in a type that the device computes in.
host::Operation scale_operation(const host::Device& device) {
  host::Operation operation;
  operation.name = RT_OP_SCALE;
  const bool single = (device.properties().compute_dtypes & RT_DTYPE_BIT(RT_FLOAT32)) != 0;
  const rt_tensor_desc tensor = host::make_tensor_desc(single ? RT_FLOAT32 : RT_FLOAT64, {8});
  operation.inputs = {tensor};
  operation.outputs = {tensor};
  operation.attributes = {{RT_ATTR_ALPHA, 2.0}};
  return operation;
}

// The operation `scale`, which is mandatory. Throws Skip if the device refuses it; a check of the
// group `kernels` reports that.
host::Operation accepted_scale(Context& context) {
  context.kernel_api();
  host::Operation operation = scale_operation(*context.device());
  const host::Support support = context.device()->query(operation);
  if (support.level == RT_SUPPORT_REFUSED)
    throw Skip("the device refuses `scale`, with which this is tried: " + support.reason);
  return operation;
}

std::string inputs_of_kernels(Context& context) {
  const host::Operation scale = accepted_scale(context);
  const auto device = context.device();
  const rt_kernel_api& api = context.kernel_api();
  GrownOperation grown(scale);
  const auto query = [&](rt_error* error) {
    rt_support support{};
    support.size = sizeof(support);
    return api.query(device->get(), &grown.desc.value, &support, error);
  };
  const auto create = [&](rt_error* error) {
    rt_plan* plan = nullptr;
    const rt_status status = api.create(device->get(), &grown.desc.value, &plan, error);
    if (status == RT_OK) api.destroy(plan);
    return status;
  };
  for (const auto& [name, call] : {std::pair<std::string, Call>{"query", query},
                                   std::pair<std::string, Call>{"create", create}}) {
    check_input(name + ": rt_op_desc", grown.desc, RT_OP_DESC_SIZE_V1, call);
    check_input(name + ": rt_tensor_desc of an input", grown.input, RT_TENSOR_DESC_SIZE_V1, call);
    check_input(name + ": rt_tensor_desc of an output", grown.output, RT_TENSOR_DESC_SIZE_V1, call);
    check_input(name + ": rt_attribute", grown.attribute, RT_ATTRIBUTE_SIZE_V1, call);
  }
  check_input("layout_bytes: rt_tensor_desc", grown.input, RT_TENSOR_DESC_SIZE_V1,
              [&](rt_error* error) {
                uint64_t bytes = 0;
                return api.layout_bytes(device->get(), &grown.input.value, &bytes, error);
              });
  return "";
}

std::string outputs_of_kernels(Context& context) {
  const host::Operation scale = accepted_scale(context);
  const auto device = context.device();
  const rt_kernel_api& api = context.kernel_api();
  const host::OperationView view(scale);
  check_output<rt_support>("query", RT_SUPPORT_SIZE_V1, [&](rt_support* support, rt_error* error) {
    return api.query(device->get(), view.get(), support, error);
  });
  const host::Kernel kernel = device->create_kernel(scale);
  check_output<rt_plan_info>(
      "info", RT_PLAN_INFO_SIZE_V1,
      [&](rt_plan_info* info, rt_error* error) { return api.info(kernel.get(), info, error); });
  return "";
}

// The array has room for two elements of a later host, of which the plugin may write one.
std::string writes_candidates_apart(Context& context) {
  const host::Operation scale = accepted_scale(context);
  const host::OperationView view(scale);
  Grown<rt_candidate> elements[2];
  elements[0].value.size = sizeof(Grown<rt_candidate>);
  rt_support support{};
  support.size = sizeof(support);
  support.candidates = &elements[0].value;
  support.candidate_capacity = 1;
  const rt_status status = status_of("query", [&](rt_error* error) {
    return context.kernel_api().query(context.device()->get(), view.get(), &support, error);
  });
  require(status == RT_OK, "query with room for one candidate answered " +
                               host::status_name(status) + "; expected RT_OK");
  require(!elements[0].written_beyond(sizeof(rt_candidate)) && !elements[1].written_beyond(0),
          "query wrote behind the candidate for which there was room");
  return fmt::format("{} candidates of `scale`", support.candidate_count);
}

std::string knows_failures_without_a_message(Context& context) {
  context.device();
  rt_device* device = nullptr;
  rt_device_options options{};
  options.size = sizeof(options);
  const rt_status status =
      context.device_api().open(context.plugin()->self(), -1, &options, &device, nullptr);
  require(status != RT_OK, "open of device -1 answered RT_OK");
  return "";
}

std::string inputs_of_launches(Context& context) {
  const host::Operation scale = accepted_scale(context);
  const auto device = context.device();
  host::Kernel kernel = device->create_kernel(scale);
  const host::Memory x = device->allocate(64), y = device->allocate(64);
  host::Memory workspace;
  host::Stream stream = device->create_stream();
  if (kernel.info().workspace_bytes > 0)
    workspace = device->allocate(kernel.info().workspace_bytes);
  stream.fill(x.data(), 0, 64);
  const void* const inputs[] = {x.data()};
  void* const outputs[] = {y.data()};
  Grown<rt_launch> launch;
  launch.value.inputs = inputs;
  launch.value.outputs = outputs;
  launch.value.input_count = launch.value.output_count = 1;
  launch.value.workspace = workspace.data();
  const auto run = [&](rt_error* error) {
    auto* const plan = const_cast<rt_plan*>(kernel.get());
    return context.kernel_api().launch(plan, stream.get(), &launch.value, error);
  };
  check_input("rt_launch", launch, RT_LAUNCH_SIZE_V1, run);
  launch.value.size = sizeof(rt_launch);
  launch.value.input_count = 0;
  require(status_of("launch", run) != RT_OK,
          "a launch without its input answered RT_OK; expected RT_ERROR_INVALID_ARGUMENT, because "
          "the host does not check launches");
  stream.synchronize();
  return "";
}

}  // namespace

void add_size_checks(std::vector<Check>& checks) {
  const auto add = [&](const char* name, std::string (*body)(Context&)) {
    checks.push_back({"sizes", name, body});
  };
  add("of the options of a device: later hosts and short structs", inputs_of_open);
  add("of what devices tell: older and later hosts", outputs_of_devices);
  add("of descriptions of operations: later hosts and short structs", inputs_of_kernels);
  add("of what kernels tell: older and later hosts", outputs_of_kernels);
  add("of candidates: the host's distance, and no more than there is room for",
      writes_candidates_apart);
  add("of launches: later hosts, short structs and missing operands", inputs_of_launches);
  add("of errors: none at all", knows_failures_without_a_message);
}

}  // namespace plugins::check
