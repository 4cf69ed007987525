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

// Writes texts and lists with their length in front, and fixed structs of the contract byte by
// byte.
class Writer {
 public:
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
  template <typename T, typename Each>
  void list(const std::vector<T>& items, Each&& each) {
    value(static_cast<uint32_t>(items.size()));
    for (const T& item : items) each(item);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  void value(T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(&v, next(sizeof(v)).data(), sizeof(v));
  }
  void value(std::string& text) { read_text(text, kMaxTextLength); }
  void long_text(std::string& text) { read_text(text, kMaxFormulaLength); }
  template <typename T, typename Each>
  void list(std::vector<T>& items, uint32_t most, Each&& each) {
    uint32_t count = 0;
    value(count);
    check_count(count, most, std::string(kWhat) + ": items of a list");
    for (uint32_t i = 0; i < count; ++i) each(items.emplace_back());
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

// Each *_of function lists the fields of a struct once, for reading and for writing.
template <typename Archive, typename Description>
void texts_of(Archive& archive, Description& d) {
  for (auto* text : {&d.name, &d.vendor, &d.version, &d.build_id, &d.description})
    archive.value(*text);
}

template <typename Archive, typename Option>
void option_of(Archive& archive, Option& option) {
  archive.value(option.key);
  archive.value(option.default_value);
  archive.value(option.description);
  archive.value(option.type);
}

// What a format has beside its options, which are a list of their own.
template <typename Archive, typename Format>
void format_of(Archive& archive, Format& format) {
  archive.value(format.name);
  archive.value(format.description);
  archive.value(format.flags);
}

template <typename Archive, typename Parameter>
void parameter_of(Archive& archive, Parameter& parameter) {
  archive.value(parameter.name);
  archive.value(parameter.description);
  archive.value(parameter.init);
  archive.value(parameter.value);
}

// All fields but the lists.
template <typename Archive, typename Spec>
void operation_of(Archive& archive, Spec& spec) {
  for (auto* text : {&spec.name, &spec.signature, &spec.description}) archive.value(*text);
  archive.long_text(spec.formula);
  archive.long_text(spec.gradient);
  archive.value(spec.kind);
  archive.value(spec.flags);
}

template <typename Archive, typename State>
void state_of(Archive& archive, State& state) {
  archive.value(state.memory);
  archive.value(state.utilisation);
  archive.value(state.error);
}

template <typename Item>
void write_optional(Writer& writer, const std::optional<Item>& item, auto&& write) {
  writer.value(static_cast<uint8_t>(item.has_value()));
  if (item) write(*item);
}

template <typename Item>
void read_optional(Reader& reader, std::optional<Item>& item, auto&& read) {
  uint8_t present = 0;
  reader.value(present);
  if (present != 0) read(item.emplace());
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
  texts_of(writer, d);
  writer.value(d.minor);
  writer.list(d.interfaces, [&](const std::string& name) { writer.value(name); });
  writer.list(d.options, [&](const Plugin::OptionSpec& o) { option_of(writer, o); });
  writer.list(d.devices, [&](const DeviceInfo& info) { writer.value(info.properties); });
  writer.list(d.states, [&](const auto& state) {
    write_optional(writer, state, [&](const DeviceState& s) { state_of(writer, s); });
  });
  write_optional(writer, d.communicator, [&](const auto& c) { writer.value(c); });
  writer.list(d.formats, [&](const ReaderFormat& format) {
    format_of(writer, format);
    writer.list(format.options, [&](const Plugin::OptionSpec& o) { option_of(writer, o); });
  });
  writer.list(d.operations, [&](const OperationSpec& o) {
    operation_of(writer, o);
    writer.list(o.attributes, [&](const OptionSpec& a) { option_of(writer, a); });
    writer.list(o.parameters, [&](const ParameterSpec& p) { parameter_of(writer, p); });
  });
  return writer.take();
}

PluginDescription decode(std::string_view bytes) {
  Reader reader(bytes);
  PluginDescription d;
  texts_of(reader, d);
  reader.value(d.minor);
  check_name(d.name, kWhat);
  reader.list(d.interfaces, 16, [&](std::string& name) { reader.value(name); });
  reader.list(d.options, kMaxOptions, [&](Plugin::OptionSpec& o) { option_of(reader, o); });
  reader.list(d.devices, kMaxDevices, [&](DeviceInfo& info) {
    info.plugin = d.name;
    info.index = static_cast<int32_t>(d.devices.size()) - 1;
    reader.value(info.properties);
    check_properties(info.properties, info.id() + ": properties");
  });
  reader.list(d.states, kMaxDevices, [&](auto& state) {
    read_optional(reader, state, [&](DeviceState& s) { state_of(reader, s); });
  });
  read_optional(reader, d.communicator, [&](rt_comm_properties& c) {
    reader.value(c);
    check_properties(c, kWhat);
  });
  reader.list(d.formats, kMaxFormats, [&](ReaderFormat& format) {
    format_of(reader, format);
    check_name(format.name, kWhat);
    reader.list(format.options, kMaxOptions, [&](Plugin::OptionSpec& o) { option_of(reader, o); });
  });
  reader.list(d.operations, kMaxOperations, [&](OperationSpec& o) {
    operation_of(reader, o);
    reader.list(o.attributes, kMaxAttributes, [&](OptionSpec& a) { option_of(reader, a); });
    reader.list(o.parameters, kMaxParameters, [&](ParameterSpec& p) { parameter_of(reader, p); });
    check_operation(o, kWhat);
  });
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
