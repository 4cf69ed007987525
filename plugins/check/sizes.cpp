// Checks of the rules of sizes: structs of hosts that are older or newer than the plugin.
#include <fmt/format.h>

#include <cstring>
#include <functional>

#include "plugins/check/check.h"
#include "plugins/check/grown.h"
#include "plugins/host/error.h"
#include "rt/operations.h"

namespace plugins::check {

namespace {

using Call = std::function<rt_status(rt_error*)>;

// Calls, and returns the status; the message of the error is checked.
rt_status status_of(const std::string& what, const Call& call) {
  Grown<rt_error> error;
  error.value.size = sizeof(rt_error);
  const rt_status status = call(&error.value);
  require(!error.written_beyond(sizeof(rt_error)),
          what + ": the plugin wrote behind the rt_error of the host");
  if (status == RT_OK || status == RT_NOT_READY) return status;
  require(std::memchr(error.value.message, '\0', sizeof(error.value.message)) != nullptr &&
              error.value.message[0] != '\0',
          what + ": the plugin failed without a message that ends in NUL");
  require(error.value.code == status,
          fmt::format("{}: the plugin returned {} and wrote {} into rt_error.code", what,
                      host::status_name(status), host::status_name(error.value.code)));
  return status;
}

// Tries an input that is too short, one with zeros behind it, and one that uses what the plugin
// cannot know. `call` passes the struct on. Frees what a call makes by itself.
template <typename T>
void check_input(const std::string& what, Grown<T>& input, uint32_t size_v1, const Call& call) {
  const auto attempt = [&](uint32_t size, unsigned char tail) {
    input.value.size = size;
    std::memset(input.tail, tail, sizeof(input.tail));
    return status_of(what, call);
  };
  const rt_status longer = attempt(sizeof(T) + Grown<T>::kMore, 0);
  require(longer == RT_OK,
          fmt::format("{} of a later host, {} bytes longer and all of them 0: the answer is {}; "
                      "expected RT_OK, because zero means what earlier releases did",
                      what, Grown<T>::kMore, host::status_name(longer)));
  const rt_status used = attempt(sizeof(T) + Grown<T>::kMore, 1);
  require(used == RT_ERROR_TOO_NEW,
          fmt::format("{} with bytes in use that this plugin cannot know: the answer is {}; "
                      "expected RT_ERROR_TOO_NEW, or the plugin does something else than the host "
                      "asks for",
                      what, host::status_name(used)));
  const rt_status shorter = attempt(size_v1 - 8, 0);
  require(shorter != RT_OK, fmt::format("{} with {} bytes was accepted; the first release has {}",
                                        what, size_v1 - 8, size_v1));
  require(attempt(sizeof(T), 0) == RT_OK, what + " is refused in the size of this release");
}

// Tries an output that is as long as in the first release, and one that is longer than the plugin
// knows.
template <typename T>
void check_output(const std::string& what, uint32_t size_v1,
                  const std::function<rt_status(T*, rt_error*)>& call) {
  for (const uint32_t size :
       {size_v1, static_cast<uint32_t>(sizeof(T)), uint32_t{sizeof(T) + Grown<T>::kMore}}) {
    Grown<T> output;
    output.value.size = size;
    const rt_status status =
        status_of(what, [&](rt_error* error) { return call(&output.value, error); });
    require(status == RT_OK, fmt::format("{} with a struct of {} bytes: {}; expected RT_OK", what,
                                         size, host::status_name(status)));
    const uint32_t end = std::min<uint32_t>(size, sizeof(T));
    require(!output.written_beyond(end),
            fmt::format("{}: the plugin wrote behind the {} bytes of the struct that it knows or "
                        "that the host has",
                        what, end));
  }
  T output{};
  output.size = size_v1 - 8;
  require(status_of(what, [&](rt_error* error) { return call(&output, error); }) != RT_OK,
          fmt::format("{} took a struct of {} bytes; the first release has {}", what, size_v1 - 8,
                      size_v1));
}

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
  const host::Operation operation = scale_operation(*context.device());
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
  host::Stream stream = device->create_stream();
  const host::Memory x = device->allocate(64), y = device->allocate(64);
  host::Memory workspace;
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
