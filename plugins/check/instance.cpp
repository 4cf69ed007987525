// Checks of the entry and of what one instance answers.
#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <thread>

#include "plugins/check/check.h"
#include "plugins/check/grown.h"
#include "plugins/host/error.h"
#include "plugins/host/loader.h"
#include "rt/capture.h"
#include "rt/native.h"
#include "rt/operation_set.h"
#include "rt/reader.h"

namespace plugins::check {

namespace {

// An instance that no handle of the host wraps.
class RawInstance {
 public:
  RawInstance(Context& context, rt_host host, uint32_t negotiation_size = sizeof(rt_negotiation))
      : host_(host) {
    negotiation_.value.size = negotiation_size;
    negotiation_.value.host_major_min = negotiation_.value.host_major_max = RT_ABI_MAJOR;
    enter(context);
    require(status_ == RT_OK && plugin_ != nullptr,
            fmt::format("the entry answered {}: {}; expected RT_OK", host::status_name(status_),
                        error_.message));
  }
  ~RawInstance() { plugin_->shutdown(plugin_->self); }
  RawInstance(const RawInstance&) = delete;
  RawInstance& operator=(const RawInstance&) = delete;

  const rt_plugin& plugin() const { return *plugin_; }
  bool wrote_beyond(uint32_t bytes) const { return negotiation_.written_beyond(bytes); }

 private:
  void enter(Context& context) {
    const rt_plugin_entry_fn entry =
        host::open_library(host::check_library(context.setup().library));
    status_ = entry(&host_, &negotiation_.value, &plugin_, &error_);
  }

  rt_host host_;
  Grown<rt_negotiation> negotiation_;
  const rt_plugin* plugin_ = nullptr;
  rt_error error_ = host::make_error();
  rt_status status_ = RT_OK;
};

// A host that offers no function.
rt_host silent_host(uint32_t size = sizeof(rt_host)) {
  rt_host host{};
  host.size = size;
  return host;
}

std::string refuses_other_major(Context& context) {
  const rt_plugin_entry_fn entry = host::open_library(host::check_library(context.setup().library));
  const rt_host host = silent_host();
  rt_negotiation negotiation{};
  negotiation.size = sizeof(negotiation);
  negotiation.host_major_min = negotiation.host_major_max = RT_ABI_MAJOR + 1000;
  const rt_plugin* plugin = nullptr;
  rt_error error = host::make_error();
  const rt_status status = entry(&host, &negotiation, &plugin, &error);
  require(status == RT_ERROR_VERSION,
          fmt::format("a host that speaks only major version {} got {}; expected RT_ERROR_VERSION",
                      RT_ABI_MAJOR + 1000, host::status_name(status)));
  require(negotiation.plugin_major == RT_ABI_MAJOR,
          fmt::format("when it refuses a host, the plugin says that its major version is {}; "
                      "expected {}",
                      negotiation.plugin_major, RT_ABI_MAJOR));
  require(error.message[0] != '\0', "the plugin refuses a host without a message");
  return "";
}

std::string works_with_first_release(Context& context) {
  const RawInstance instance(context, silent_host(RT_HOST_SIZE_V1), RT_NEGOTIATION_SIZE_V1);
  require(!instance.wrote_beyond(RT_NEGOTIATION_SIZE_V1),
          fmt::format("the plugin wrote behind the {} bytes of the rt_negotiation of a host of the "
                      "first release; write no field beyond `size`",
                      RT_NEGOTIATION_SIZE_V1));
  return "";
}

std::string makes_instances_in_threads(Context& context) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> failures(4);
  for (std::exception_ptr& failure : failures) {
    threads.emplace_back([&] {
      try {
        host::Plugin::load(context.setup().library, {});
      } catch (...) {
        failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return "";
}

constexpr const char* kInterfaces[] = {
    RT_INTERFACE_DEVICE, RT_INTERFACE_KERNEL,     RT_INTERFACE_COMMUNICATOR, RT_INTERFACE_CAPTURE,
    RT_INTERFACE_NATIVE, RT_INTERFACE_OPERATIONS, RT_INTERFACE_READER};

std::string knows_its_interfaces(Context& context) {
  const RawInstance instance(context, silent_host());
  const rt_plugin& plugin = instance.plugin();
  require(plugin.get_interface(plugin.self, "org.example.unknown", 1) == nullptr,
          "get_interface(\"org.example.unknown\", 1) answered a table; expected NULL, or a later "
          "host takes it for one that it knows");
  for (const char* name : kInterfaces) {
    require(plugin.get_interface(plugin.self, name, 1000) == nullptr,
            fmt::format("get_interface(\"{}\", 1000) answered a table; expected NULL for a version "
                        "that the plugin does not know",
                        name));
    require(
        plugin.get_interface(plugin.self, name, 1) == plugin.get_interface(plugin.self, name, 1),
        fmt::format("get_interface(\"{}\", 1) answered two different tables", name));
  }
  return "";
}

std::string is_the_same_every_time(Context& context) {
  const auto first = context.plugin(), second = host::Plugin::load(context.setup().library, {});
  require(first->build_id() == second->build_id() && first->name() == second->name(),
          fmt::format("two instances call themselves \"{}\" and \"{}\", of the builds \"{}\" and "
                      "\"{}\"; the tuning cache needs the same texts every time",
                      first->name(), second->name(), first->build_id(), second->build_id()));
  return "";
}

bool fits(const std::string& text, int32_t type) {
  if (type == RT_OPTION_STRING) return true;
  if (type == RT_OPTION_BOOLEAN) return text == "true" || text == "false";
  char* end = nullptr;
  if (type == RT_OPTION_INTEGER) {
    std::strtoll(text.c_str(), &end, 10);
  } else {
    std::strtod(text.c_str(), &end);
  }
  return !text.empty() && *end == '\0';
}

std::string has_defaults_of_their_type(Context& context) {
  for (const auto& option : context.plugin()->options()) {
    require(fits(option.default_value, option.type),
            fmt::format("the default of the option '{}' is \"{}\"; expected a value of its type",
                        option.key, option.default_value));
    require(!option.description.empty(),
            fmt::format("the option '{}' has no description", option.key));
  }
  return fmt::format("{} options", context.plugin()->options().size());
}

}  // namespace

void add_instance_checks(std::vector<Check>& checks) {
  const auto add = [&](const char* name, std::string (*body)(Context&)) {
    checks.push_back({"instance", name, body});
  };
  add("refuses a host of another major version and names its own", refuses_other_major);
  add("works with a host of the first release that offers no function", works_with_first_release);
  add("makes instances in several threads at the same time", makes_instances_in_threads);
  add("answers NULL for interfaces and versions that it does not have", knows_its_interfaces);
  add("has the same name and build id in every instance", is_the_same_every_time);
  add("describes its options, with defaults of their types", has_defaults_of_their_type);
}

}  // namespace plugins::check
