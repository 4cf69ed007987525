// Checks of how devices are listed and opened.
#include <fmt/format.h>

#include <set>
#include <thread>

#include "plugins/check/check.h"
#include "plugins/host/error.h"

namespace plugins::check {

namespace {

int32_t count_of(Context& context) {
  int32_t count = -1;
  rt_error error = host::make_error();
  host::check(context.device_api().count(context.plugin()->self(), &count, &error), error, "count");
  if (count == 0) throw Skip("the plugin lists no devices");
  return count;
}

std::string lists_devices(Context& context) {
  const auto devices = host::list_devices(*context.plugin());
  if (devices.empty()) throw Skip("the plugin lists no devices");
  std::string text;
  for (const host::DeviceInfo& device : devices) {
    const rt_device_properties& p = device.properties;
    require(device.usable() || p.unusable_reason[0] != '\0',
            device.id() + " is not usable and gives no reason");
    require(!device.usable() || (p.storage_dtypes & p.compute_dtypes) == p.compute_dtypes,
            device.id() + " computes in types that it does not store");
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", device.id(),
                        device.usable() ? p.name : p.unusable_reason);
  }
  return text;
}

std::string tells_devices_apart(Context& context) {
  const auto devices = host::list_devices(*context.plugin());
  if (devices.size() < 2) throw Skip("the plugin lists fewer than two devices");
  std::set<std::string> ids;
  for (const host::DeviceInfo& device : devices) {
    require(ids.insert(device.properties.stable_id).second,
            fmt::format("two devices have the stable_id \"{}\"; configurations name devices by it",
                        device.properties.stable_id));
  }
  return "";
}

std::string lists_the_same_again(Context& context) {
  const auto first = host::list_devices(*context.plugin());
  if (first.empty()) throw Skip("the plugin lists no devices");
  const auto second = host::list_devices(*host::Plugin::load(context.setup().library, {}));
  require(first.size() == second.size(),
          fmt::format("one instance lists {} devices and the next one {}", first.size(),
                      second.size()));
  for (size_t i = 0; i < first.size(); ++i) {
    const rt_device_properties &a = first[i].properties, &b = second[i].properties;
    require(a.stable_id == std::string(b.stable_id) && a.alignment == b.alignment &&
                a.compute_dtypes == b.compute_dtypes && a.memory_bytes == b.memory_bytes,
            first[i].id() + " has other properties in the next instance of the plugin");
  }
  return "";
}

// Calls `open` and closes what it makes. Returns the status.
rt_status try_open(Context& context, int32_t index, const host::DeviceOptions& options,
                   rt_error& error) {
  std::vector<rt_option> values;
  std::vector<const rt_option*> pointers;
  for (const auto& [key, value] : options.options)
    values.push_back({sizeof(rt_option), 0, key.c_str(), value.c_str()});
  for (const rt_option& value : values) pointers.push_back(&value);
  rt_device_options given{};
  given.size = sizeof(given);
  given.threads = options.threads;
  given.options = pointers.data();
  given.option_count = static_cast<uint32_t>(pointers.size());
  rt_device* device = nullptr;
  const rt_device_api& api = context.device_api();
  const rt_status status = api.open(context.plugin()->self(), index, &given, &device, &error);
  if (status == RT_OK) api.close(device);
  return status;
}

std::string refuses_absent_devices(Context& context) {
  const int32_t count = count_of(context);
  for (const int32_t index : {-1, count, count + 1000}) {
    rt_error error = host::make_error();
    rt_device_properties properties{};
    properties.size = sizeof(properties);
    rt_status status =
        context.device_api().properties(context.plugin()->self(), index, &properties, &error);
    require(status != RT_OK, fmt::format("properties answered RT_OK for device {} of {}; expected "
                                         "RT_ERROR_INVALID_ARGUMENT",
                                         index, count));
    require(error.message[0] != '\0',
            "properties of a device that does not exist fails without a "
            "message");
    error = host::make_error();
    status = try_open(context, index, {0, context.setup().options}, error);
    require(status != RT_OK, fmt::format("open answered RT_OK for device {} of {}; expected "
                                         "RT_ERROR_INVALID_ARGUMENT, and not another device",
                                         index, count));
  }
  return "";
}

// A text that is no value of the type; nullopt for strings, of which any may be valid.
const char* not_a(int32_t type) {
  if (type == RT_OPTION_BOOLEAN) return "maybe";
  if (type == RT_OPTION_INTEGER || type == RT_OPTION_NUMBER) return "twelve";
  return nullptr;
}

std::string reads_its_options(Context& context) {
  count_of(context);
  int read = 0;
  for (const auto& option : context.plugin()->options()) {
    const char* const wrong = not_a(option.type);
    if (wrong == nullptr || context.plugin()->communicator_api() != nullptr) continue;
    host::DeviceOptions options{0, context.setup().options};
    options.options[option.key] = wrong;
    rt_error error = host::make_error();
    const rt_status status = try_open(context, context.setup().device, options, error);
    require(status != RT_OK,
            fmt::format("open took \"{}\" for the option '{}'; expected a refusal: either the "
                        "plugin ignores its options, or it takes garbage for a value",
                        wrong, option.key));
    ++read;
  }
  if (read == 0) throw Skip("the plugin declares no option of a device that is no text");
  return fmt::format("{} options", read);
}

std::string takes_its_defaults(Context& context) {
  context.device();
  host::DeviceOptions options{0, {}};
  for (const auto& option : context.plugin()->options())
    options.options[option.key] = option.default_value;
  for (const auto& [key, value] : context.setup().options) options.options[key] = value;
  if (context.plugin()->communicator_api() != nullptr)
    throw Skip("the options may be those of the communicator");
  host::Device::open(context.plugin(), context.setup().device, options);
  return "";
}

std::string opens_in_threads(Context& context) {
  context.device();
  std::vector<std::thread> threads;
  std::vector<std::string> failures(4);
  for (std::string& failure : failures) {
    threads.emplace_back([&] {
      try {
        const auto device = host::Device::open(context.plugin(), context.setup().device,
                                               {0, context.setup().options});
        const host::Memory memory = device->allocate(4096);
        host::Stream stream = device->create_stream();
        stream.fill(memory.data(), 1, memory.bytes());
        stream.synchronize();
      } catch (const std::exception& error) {
        failure = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) require(failure.empty(), failure);
  return "";
}

}  // namespace

void add_device_checks(std::vector<Check>& checks) {
  const auto add = [&](const char* name, std::string (*body)(Context&)) {
    checks.push_back({"devices", name, body});
  };
  add("are listed with true properties, or with the reason why not usable", lists_devices);
  add("have different stable ids", tells_devices_apart);
  add("are listed the same by every instance", lists_the_same_again);
  add("that do not exist are refused", refuses_absent_devices);
  add("open with the defaults of all options", takes_its_defaults);
  add("refuse options that are no values of their types", reads_its_options);
  add("open and work in several threads at the same time", opens_in_threads);
}

}  // namespace plugins::check
