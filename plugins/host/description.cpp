// Writes and reads the description of a plugin as bytes, with every length checked.
#include "plugins/host/description.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "plugins/host/communicator.h"
#include "plugins/host/error.h"
#include "plugins/host/limits.h"

namespace plugins::host {
namespace {

constexpr const char* kWhat = "the description of a plugin";
constexpr uint32_t kMostInterfaces = 16;

// Writes texts and lists with their length in front, and fixed structs of the contract byte by
// byte.
class Writer {
 public:
  static constexpr bool kReads = false;
  template <typename T>
  void value(const T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&v), sizeof(v));
  }
  void value(const std::string& text) {
    value(static_cast<uint32_t>(text.size()));
    bytes_ += text;
  }
  void long_text(const std::string& text) { value(text); }
  template <typename T>
  void list(const std::vector<T>& items, uint32_t /*most*/, auto&& each) {
    value(static_cast<uint32_t>(items.size()));
    for (const T& item : items) each(item);
  }
  template <typename T>
  void optional(const std::optional<T>& item, auto&& each) {
    value(static_cast<uint8_t>(item.has_value()));
    if (item) each(*item);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  static constexpr bool kReads = true;

  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  void value(T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(&v, next(sizeof(v)).data(), sizeof(v));
  }
  void value(std::string& text) { read_text(text, kMaxTextLength); }
  void long_text(std::string& text) { read_text(text, kMaxFormulaLength); }
  template <typename T>
  void list(std::vector<T>& items, uint32_t most, auto&& each) {
    uint32_t count = 0;
    value(count);
    check_count(count, most, std::string(kWhat) + ": items of a list");
    for (uint32_t i = 0; i < count; ++i) each(items.emplace_back());
  }
  template <typename T>
  void optional(std::optional<T>& item, auto&& each) {
    uint8_t present = 0;
    value(present);
    if (present != 0) each(item.emplace());
  }
  void end() const {
    if (!bytes_.empty())
      throw Error(RT_ERROR_INTERNAL, std::string(kWhat) + " has bytes behind it");
  }

 private:
  void read_text(std::string& text, std::size_t longest) {
    uint32_t length = 0;
    value(length);
    // printable() writes some bytes as four characters.
    check_count(length, static_cast<int64_t>(longest) * 4,
                std::string(kWhat) + ": length of a text");
    text = checked_text(std::string(next(length)).c_str(), length, kWhat);
  }
  std::string_view next(std::size_t count) {
    if (count > bytes_.size()) throw Error(RT_ERROR_INTERNAL, std::string(kWhat) + " is cut off");
    const std::string_view part = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return part;
  }
  std::string_view bytes_;
};

template <typename Archive, typename Option>
void option_of(Archive& archive, Option& option) {
  for (auto* text : {&option.key, &option.default_value, &option.description}) archive.value(*text);
  archive.value(option.type);
}

template <typename Archive, typename Spec>
void operation_of(Archive& archive, Spec& spec) {
  for (auto* text : {&spec.name, &spec.signature, &spec.description}) archive.value(*text);
  archive.long_text(spec.formula);
  archive.long_text(spec.gradient);
  archive.value(spec.kind);
  archive.value(spec.flags);
  archive.list(spec.attributes, kMaxAttributes, [&](auto& a) { option_of(archive, a); });
  archive.list(spec.parameters, kMaxParameters, [&](auto& parameter) {
    archive.value(parameter.name);
    archive.value(parameter.description);
    archive.value(parameter.init);
    archive.value(parameter.value);
  });
  if constexpr (Archive::kReads) check_operation(spec, kWhat);
}

// Lists the fields of a description once, for writing and for reading; what is read is checked.
template <typename Archive, typename Description>
void fields_of(Archive& archive, Description& d) {
  const auto option = [&](auto& o) { option_of(archive, o); };
  for (auto* text : {&d.name, &d.vendor, &d.version, &d.build_id, &d.description})
    archive.value(*text);
  archive.value(d.minor);
  if constexpr (Archive::kReads) check_name(d.name, kWhat);
  archive.list(d.interfaces, kMostInterfaces, [&](auto& name) { archive.value(name); });
  archive.list(d.options, kMaxOptions, option);
  archive.list(d.devices, kMaxDevices, [&](auto& info) {
    archive.value(info.properties);
    if constexpr (Archive::kReads) {
      info.plugin = d.name;
      info.index = static_cast<int32_t>(d.devices.size()) - 1;
      check_properties(info.properties, info.id() + ": properties");
    }
  });
  archive.list(d.states, kMaxDevices, [&](auto& known) {
    archive.optional(known, [&](auto& state) {
      archive.value(state.memory);
      archive.value(state.utilisation);
      archive.value(state.error);
    });
  });
  archive.optional(d.communicator, [&](auto& properties) {
    archive.value(properties);
    if constexpr (Archive::kReads) check_properties(properties, kWhat);
  });
  archive.list(d.formats, kMaxFormats, [&](auto& format) {
    archive.value(format.name);
    archive.value(format.description);
    archive.value(format.flags);
    if constexpr (Archive::kReads) check_name(format.name, kWhat);
    archive.list(format.options, kMaxOptions, option);
  });
  archive.list(d.operations, kMaxOperations, [&](auto& spec) { operation_of(archive, spec); });
}

std::vector<std::string> interfaces_of(const Plugin& plugin) {
  std::vector<std::string> names;
  const auto add = [&](const void* table, const char* name) {
    if (table != nullptr) names.emplace_back(name);
  };
  add(plugin.device_api(), RT_INTERFACE_DEVICE);
  add(plugin.kernel_api(), RT_INTERFACE_KERNEL);
  add(plugin.communicator_api(), RT_INTERFACE_COMMUNICATOR);
  add(plugin.capture_api(), RT_INTERFACE_CAPTURE);
  add(plugin.native_api(), RT_INTERFACE_NATIVE);
  add(plugin.reader_api(), RT_INTERFACE_READER);
  add(plugin.operations_api(), RT_INTERFACE_OPERATIONS);
  return names;
}

std::optional<DeviceState> state_of_device(const std::shared_ptr<Plugin>& plugin,
                                           const DeviceInfo& info) {
  if (!info.usable() || (info.properties.flags & RT_DEVICE_HOST_MEMORY) != 0) return std::nullopt;
  DeviceState state;
  try {
    const auto device = Device::open(plugin, info.index);
    state.memory = device->memory_info();
    state.utilisation = device->utilisation();
  } catch (const Error& error) {
    state.error = std::string(error.what()).substr(0, kMaxTextLength);
  }
  return state;
}

}  // namespace

bool PluginDescription::offers(std::string_view interface) const {
  return std::find(interfaces.begin(), interfaces.end(), interface) != interfaces.end();
}

PluginDescription describe(const std::shared_ptr<Plugin>& plugin, bool states,
                           const std::function<void(const char*)>& begin) {
  PluginDescription d;
  d.name = plugin->name();
  d.vendor = plugin->vendor();
  d.version = plugin->version();
  d.build_id = plugin->build_id();
  d.description = plugin->description();
  d.minor = plugin->minor();
  d.interfaces = interfaces_of(*plugin);
  d.options = plugin->options();
  d.operations = plugin->operations();
  d.devices = list_devices(*plugin, begin);
  if (plugin->communicator_api() != nullptr) {
    begin("the properties of its communicators were read");
    d.communicator = communicator_properties(*plugin);
  }
  if (plugin->reader_api() != nullptr) {
    begin("its formats of data sets were asked for");
    d.formats = list_formats(*plugin);
  }
  for (const DeviceInfo& info : d.devices) {
    if (!states) break;
    begin(("the state of " + info.id() + " was read").c_str());
    d.states.push_back(state_of_device(plugin, info));
  }
  return d;
}

std::string encode(const PluginDescription& d) {
  Writer writer;
  fields_of(writer, d);
  return writer.take();
}

PluginDescription decode(std::string_view bytes) {
  Reader reader(bytes);
  PluginDescription d;
  fields_of(reader, d);
  reader.end();
  if (!d.states.empty() && d.states.size() != d.devices.size())
    throw Error(RT_ERROR_INTERNAL, std::string(kWhat) + " has other devices than states");
  return d;
}

std::string encoding_version() {
  return "3/" + std::to_string(sizeof(rt_device_properties)) + "/" +
         std::to_string(sizeof(rt_comm_properties)) + "/" + std::to_string(sizeof(rt_memory_info)) +
         "/" + std::to_string(sizeof(rt_utilisation));
}

}  // namespace plugins::host
