// Makes an instance, offers it the functions of the host, and ends it when nobody uses it any more.
#include "plugins/host/plugin.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

#include "plugins/host/call.h"
#include "plugins/host/error.h"
#include "plugins/host/limits.h"
#include "plugins/host/loader.h"
#include "plugins/host/printable.h"
#include "plugins/host/tables.h"
#include "rt/host_process.h"

namespace plugins::host {
namespace {

// Runs the body of a function of rt_host. No exception of the host may reach the plugin, so every
// one becomes a status.
template <typename Body>
rt_status answer(rt_error* error, Body&& body) noexcept {
  const auto fill = [error](rt_status code, const char* text) {
    if (error != nullptr && error->size >= RT_ERROR_SIZE_V1) {
      error->code = code;
      error->scope = RT_SCOPE_OPERATION;
      std::strncpy(error->message, text, sizeof(error->message) - 1);
    }
    return code;
  };
  try {
    return body();
  } catch (const Error& e) {
    return fill(e.code(), e.what());
  } catch (const std::exception& e) {
    return fill(RT_ERROR_INTERNAL, e.what());
  } catch (...) {
    return fill(RT_ERROR_INTERNAL, "the host failed for an unknown reason");
  }
}

// The same for a function that has no way to tell of an error.
template <typename Body>
void quietly(Body&& body) noexcept {
  try {
    body();
  } catch (...) {
    // Nobody would be told.
  }
}

const HostServices& services_of(void* context) { return *static_cast<HostServices*>(context); }

// Logs line by line, so that no part of a plugin's text looks like a message of its own.
void log_lines(const HostServices& services, int32_t level, std::string_view component,
               std::string_view text) {
  do {
    const std::size_t end = std::min(text.find('\n'), text.size());
    services.log(level, printable(component), printable(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  } while (!text.empty());
}

void host_log(void* context, int32_t level, const char* component, const char* text) {
  quietly([&] {
    log_lines(services_of(context), level, component != nullptr ? component : "",
              text != nullptr ? text : "");
  });
}

rt_status host_kv_set(void* context, const char* key, const void* value, uint64_t bytes,
                      rt_error* error) {
  return answer(error, [&] {
    services_of(context).kv_set(key, std::string(static_cast<const char*>(value), bytes));
    return RT_OK;
  });
}

rt_status host_kv_get(void* context, const char* key, void* value, uint64_t* bytes,
                      int64_t timeout_ns, rt_error* error) {
  return answer(error, [&] {
    const std::string stored =
        services_of(context).kv_get(key, std::chrono::nanoseconds(timeout_ns));
    const uint64_t capacity = *bytes;
    *bytes = stored.size();
    if (stored.size() > capacity) {
      throw Error(RT_ERROR_INVALID_ARGUMENT, std::string("kv_get: the value of '") + key +
                                                 "' has " + std::to_string(stored.size()) +
                                                 " bytes, the buffer " + std::to_string(capacity));
    }
    std::memcpy(value, stored.data(), stored.size());
    return RT_OK;
  });
}

void host_span_begin(void* context, const char* name) {
  quietly([&] { services_of(context).span_begin(name); });
}

void host_span_end(void* context) {
  quietly([&] { services_of(context).span_end(); });
}

uint64_t host_available_memory(void* context) {
  uint64_t bytes = UINT64_MAX;
  quietly([&] {
    const HostServices& services = services_of(context);
    if (services.available_memory) bytes = services.available_memory();
  });
  return bytes;
}

int32_t host_stop_requested(void* context) {
  int32_t requested = 0;
  quietly([&] {
    const HostServices& services = services_of(context);
    requested = services.stop_requested && services.stop_requested() ? 1 : 0;
  });
  return requested;
}

constexpr rt_host_process_api kProcess = {sizeof(rt_host_process_api), RT_HOST_PROCESS_API_VERSION,
                                          host_available_memory, host_stop_requested};

const void* host_get_interface(void*, const char* name, uint32_t version) {
  const bool known = name != nullptr && std::strcmp(name, RT_HOST_INTERFACE_PROCESS) == 0 &&
                     version == RT_HOST_PROCESS_API_VERSION;
  return known ? &kProcess : nullptr;
}

rt_host make_host(HostServices& services) {
  rt_host host{};
  host.size = sizeof(host);
  host.context = &services;
  host.get_interface = host_get_interface;
  if (services.log) host.log = host_log;
  if (services.kv_set) host.kv_set = host_kv_set;
  if (services.kv_get) host.kv_get = host_kv_get;
  if (services.span_begin && services.span_end) {
    host.span_begin = host_span_begin;
    host.span_end = host_span_end;
  }
  return host;
}

// "1", or "1 to 2".
std::string versions(uint32_t first, uint32_t last) {
  return first == last ? std::to_string(first)
                       : std::to_string(first) + " to " + std::to_string(last);
}

std::string other_version(const rt_negotiation& negotiation) {
  return "speaks version " + std::to_string(negotiation.plugin_major) +
         " of the plugin contract, this host speaks version " +
         versions(negotiation.host_major_min, negotiation.host_major_max) +
         "; rebuild the plugin with the headers of this runtime";
}

bool speaks(const rt_negotiation& n) {
  return n.plugin_major >= n.host_major_min && n.plugin_major <= n.host_major_max;
}

// Calls the entry and returns an instance whose version the host speaks. `negotiation` receives
// what the plugin says of its version.
const rt_plugin* enter(rt_plugin_entry_fn entry, const rt_host& host, rt_negotiation& negotiation,
                       const std::string& who) {
  negotiation = {};
  negotiation.size = sizeof(negotiation);
  negotiation.host_major_min = negotiation.host_major_max = RT_ABI_MAJOR;
  const rt_plugin* plugin = nullptr;
  rt_error error;
  const auto describe = [&] { return who + ": " RT_PLUGIN_ENTRY_SYMBOL; };
  const rt_status status = call_status(
      error, describe, [&](rt_error* e) { return entry(&host, &negotiation, &plugin, e); });
  if (status == RT_ERROR_VERSION || (status == RT_OK && !speaks(negotiation))) {
    // An instance of another version cannot be shut down either: the layout of its struct is
    // unknown.
    const std::string words = printable_array(error.message);
    throw Error(RT_ERROR_VERSION, who + ": " + other_version(negotiation) +
                                      (words.empty() ? "" : "; the plugin says: " + words));
  }
  check(status, error, describe());
  if (plugin == nullptr) {
    throw Error(RT_ERROR_INTERNAL, describe() + " answered RT_OK without a plugin");
  }
  return plugin;
}

// Copies the instance after checking that its struct is long enough. Fields that only the plugin
// knows are left out, and fields that only this host knows are absent.
rt_plugin copy_instance(const rt_plugin& offered, const std::string& who) {
  if (offered.size < RT_PLUGIN_SIZE_V1) {
    throw Error(RT_ERROR_VERSION, who + ": its rt_plugin has " + std::to_string(offered.size) +
                                      " bytes; version " + std::to_string(RT_ABI_MAJOR) +
                                      " of the contract has " + std::to_string(RT_PLUGIN_SIZE_V1) +
                                      "; rebuild the plugin with the headers of this runtime");
  }
  rt_plugin plugin{};
  std::memcpy(&plugin, &offered, std::min<std::size_t>(offered.size, sizeof(plugin)));
  return plugin;
}

template <typename Slot>
void require_slot(Slot slot, const char* name, const std::string& who) {
  if (slot == nullptr) {
    throw Error(RT_ERROR_VERSION,
                who + ": its rt_plugin has an empty slot '" + name + "'; every slot is mandatory");
  }
}

void check_instance(const rt_plugin& plugin, const std::string& who) {
  require_slot(plugin.name, "name", who);
  require_slot(plugin.vendor, "vendor", who);
  require_slot(plugin.version, "version", who);
  require_slot(plugin.build_id, "build_id", who);
  require_slot(plugin.description, "description", who);
  require_slot(plugin.get_interface, "get_interface", who);
  require_slot(plugin.options, "options", who);
  check_name(std::string(plugin.name, strnlen(plugin.name, 256)), who);
}

std::vector<Plugin::OptionSpec> copy_options(const rt_plugin& plugin, const std::string& who) {
  uint32_t count = 0;
  const rt_option_spec* const* specs = nullptr;
  call([&] { return who + ": options"; },
       [&](rt_error*) {
         specs = plugin.options(plugin.self, &count);
         return RT_OK;
       });
  if (specs == nullptr) return {};
  check_count(count, kMaxOptions, who + ": options");
  std::vector<Plugin::OptionSpec> options;
  for (uint32_t i = 0; i < count; ++i) options.push_back(copy_option(specs[i], who));
  return options;
}

}  // namespace

Plugin::~Plugin() {
  interposed_.reset();
  if (!instance_) return;
  const auto say = [this](const std::string& text) { log(RT_LOG_ERROR, "shutdown threw " + text); };
  try {
    instance_->shutdown(instance_->self);
  } catch (const std::exception& e) {
    say(printable(e.what()));
  } catch (...) {
    say("something that is not a std::exception");
  }
}

std::shared_ptr<Plugin> Plugin::load(const std::filesystem::path& path,
                                     const HostServices& services,
                                     const std::shared_ptr<Interposer>& interposer) {
  return load(
      check_library(path), services, [](const char*) {}, interposer);
}

std::shared_ptr<Plugin> Plugin::load(const CheckedFile& file, const HostServices& services,
                                     const std::function<void(const char*)>& begin,
                                     const std::shared_ptr<Interposer>& interposer) {
  const std::string who = "plugin " + printable(file.named.string());
  std::shared_ptr<Plugin> plugin(new Plugin);
  plugin->path_ = file.named;
  plugin->services_ = services;
  plugin->host_ = make_host(plugin->services_);
  begin("its library was opened");
  const rt_plugin_entry_fn entry = open_library(file);
  begin("its entry ran");
  rt_negotiation negotiation;
  const rt_plugin copy = copy_instance(*enter(entry, plugin->host_, negotiation, who), who);
  plugin->minor_ = negotiation.plugin_minor;
  require_slot(copy.shutdown, "shutdown", who);
  plugin->instance_ = copy;  // from here on a refusal also calls shutdown
  check_instance(copy, who);
  const auto text = [&](const char* value, const char* field) {
    return checked_text(value, kMaxTextLength, who + ": " + field);
  };
  plugin->texts_.name = copy.name;
  plugin->texts_.vendor = text(copy.vendor, "vendor");
  plugin->texts_.version = text(copy.version, "version");
  plugin->texts_.build_id = text(copy.build_id, "build_id");
  plugin->texts_.description = text(copy.description, "description");
  begin("its tables were asked for");
  plugin->tables_ = adopt_tables(copy, who);
  if (interposer != nullptr) {
    plugin->interposed_ =
        interposer->wrap(plugin->texts_.name, copy.self, plugin->tables_, plugin->minor_);
    plugin->tables_ = plugin->interposed_->tables();
  }
  begin("its options were asked for");
  plugin->options_ = copy_options(copy, who);
  if (plugin->tables_.operations) {
    begin("its operations were asked for");
    plugin->operations_ = copy_operations(*plugin->tables_.operations, copy.self, who);
  }
  return plugin;
}

std::vector<int64_t> Plugin::output_dims(const std::string& operation, const Operation& op) const {
  return host::output_dims(*operations_api(), plain_self(), "plugin " + name(), operation, op);
}

void Plugin::log(int32_t level, const std::string& text) const noexcept {
  quietly([&] {
    if (services_.log) services_.log(level, name(), text);
  });
}

}  // namespace plugins::host
