// Assigns checked values to the members of Config, with defaults and inherited keys of groups.
#include <concepts>

#include "runtime/config/declare.h"
#include "runtime/config/read.h"
#include "runtime/config/toml_text.h"

namespace runtime::config {
namespace {

using Kind = Value::Kind;

// Assigns a value that was checked against the schema to a member of any type.
class Assign {
 public:
  Assign(const LayerTypes& types, const std::string& path) : types_(types), path_(path) {}

  template <class Target>
  void operator()(const Value& value, Target& target) const {
    assign(value, target);
  }
  void operator()(const Value& value, Init& target) const { target = read_init(value); }
  // The schema keeps every value for an int below 2^31.
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) void operator()(const Value& value,
                                                         Integer& target) const {
    target = static_cast<Integer>(value.integer);
  }
  void operator()(const Value& value, std::vector<Layer>& target) const {
    target = read_layers(value, path_, types_);
  }
  // Groups get what they leave out from [optimizer] later, see inherit().
  void operator()(const Value& value, std::vector<OptimizerGroup>& target) const {
    read_tables(value, target);
  }
  void operator()(const Value& value, std::vector<DatasetInput>& target) const {
    read_tables(value, target);
  }
  template <class Item>
  void operator()(const Value& value, std::vector<Item>& target) const {
    if (value.is(Kind::kString)) return target.clear();  // "auto"
    if (!value.is(Kind::kArray)) {
      target.assign(1, Item{});
      return (*this)(value, target[0]);
    }
    target.assign(value.items.size(), Item{});
    for (size_t i = 0; i < value.items.size(); ++i) (*this)(value.items[i], target[i]);
  }

  template <class Item>
  void read_table(const Value& table, Item& item) const {
    for (const KeyOf<Item>& key : keys_of_tables(&item)) {
      if (const Member* member = table.find(key.declared.name))
        std::visit([&](auto* field) { (*this)(member->value, *field); }, key.field(item));
    }
  }

 private:
  template <class Item>
  void read_tables(const Value& value, std::vector<Item>& target) const {
    target.assign(value.items.size(), Item{});
    for (size_t i = 0; i < target.size(); ++i) read_table(value.items[i], target[i]);
  }

  const LayerTypes& types_;
  const std::string& path_;
};

void read_key(const Value& root, const std::string& section, const Key& key, const Field& target,
              const LayerTypes& types) {
  const std::string path = section + "." + key.name;
  const Member* table = root.find(section);
  const Member* member = table == nullptr ? nullptr : table->value.find(key.name);
  if (member != nullptr) {
    check_value(member->value, key, path);
    std::visit([&](auto* field) { Assign(types, path)(member->value, *field); }, target);
  } else if (key.required) {
    fail(table == nullptr ? root.position : table->value.position, path,
         "missing: it has no default; expected " + describe_type(key));
  }
}

// A group has the keys of [optimizer] that its table does not give. Those that belong to one rule
// keep their defaults if the table names another rule, and those that belong to the momentum if the
// table sets that to 0.
void inherit(const Value& root, Optimizer& optimizer, const LayerTypes& types) {
  const Member* const section = root.find("optimizer");
  const Member* const groups = section == nullptr ? nullptr : section->value.find("group");
  for (size_t i = 0; i < optimizer.groups.size(); ++i) {
    const Value& table = groups->value.items[i];
    const Member* const name = table.find("name");
    UpdateRule rule = static_cast<const UpdateRule&>(optimizer);
    if (name != nullptr && name->value.string != optimizer.name) {
      rule = UpdateRule{};
      rule.lr = optimizer.lr;
      rule.weight_decay = optimizer.weight_decay;
      rule.weight_decay_on = optimizer.weight_decay_on;
    }
    static_cast<UpdateRule&>(optimizer.groups[i]) = rule;
    Assign(types, "").read_table(table, optimizer.groups[i]);
    const Member* const momentum = table.find("momentum");
    if (momentum == nullptr || optimizer.groups[i].momentum != 0) continue;
    if (table.find("dampening") == nullptr) optimizer.groups[i].dampening = 0;
    if (table.find("nesterov") == nullptr) optimizer.groups[i].nesterov = false;
  }
}

std::string option_text(const Value& value, const std::string& path) {
  if (value.is(Kind::kString)) return value.string;
  if (value.is(Kind::kInteger) || value.is(Kind::kNumber) || value.is(Kind::kBoolean))
    return toml_text(value);
  fail_wrong(value, path, "a string, a number or a boolean");
}

// Reads the keys of every table [device.<plugin>], for example. Any key is accepted
// here, because no plugin is open; runtime/launch/plugin_tables.h compares them with the plugins.
PluginOptions read_plugin_options(const Value& root, const std::string& section_name) {
  PluginOptions all;
  const Member* section = root.find(section_name);
  if (section == nullptr) return all;
  for (const Member& plugin : section->value.members) {
    if (!plugin.value.is(Kind::kTable)) continue;
    auto& options = all[plugin.key];
    for (const Member& option : plugin.value.members) {
      options[option.key] =
          option_text(option.value, section_name + "." + shorten(plugin.key) + "." + option.key);
    }
  }
  return all;
}

}  // namespace

void assign(const Value& value, bool& target) { target = value.boolean; }
void assign(const Value& value, std::string& target) { target = value.string; }
void assign(const Value& value, int64_t& target) { target = value.integer; }
void assign(const Value& value, double& target) { target = value.as_number(); }

Config read_config(const Value& root, const LayerTypes& types,
                   const std::vector<SharedOperation>& optimizers) {
  Config config;
  for (const Section& section : sections()) {
    for (const Key& key : section.keys) read_key(root, section.name, key, key.field(config), types);
  }
  inherit(root, config.optimizer, types);
  read_open_optimizers(root, optimizers, config.optimizer);
  config.device.options = read_plugin_options(root, "device");
  config.comm.options = read_plugin_options(root, "comm");
  config.dataset.options = read_plugin_options(root, "dataset");
  return config;
}

}  // namespace runtime::config
