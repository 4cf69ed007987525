// Names, keys and values of what plugins bring.
#include <algorithm>
#include <map>

#include "plugins/host/nearest.h"
#include "runtime/config/format.h"
#include "runtime/config/open_operation.h"
#include "runtime/config/read.h"

namespace runtime::config {
namespace {

using Kind = Value::Kind;

bool has_dot(const Value& table, const char* key) {
  const Member* const member = table.is(Kind::kTable) ? table.find(key) : nullptr;
  return member != nullptr && member->value.is(Kind::kString) &&
         member->value.string.find('.') != std::string::npos;
}

bool any_open_layer(const Value& layers) {
  return std::any_of(layers.items.begin(), layers.items.end(), [](const Value& layer) {
    return has_dot(layer, "type") ||
           std::any_of(layer.members.begin(), layer.members.end(), [](const Member& member) {
             return member.value.is(Kind::kArray) && any_open_layer(member.value);
           });
  });
}

std::variant<int64_t, double> attribute_of(const Value& value, Type type) {
  if (type == Type::kBoolean) return int64_t{value.boolean};
  if (type == Type::kInteger) return value.integer;
  return value.as_number();
}

// [optimizer.<plugin>] holds the keys of all optimizers of that plugin that the groups use.
class OptimizerReader {
 public:
  OptimizerReader(const Value& root, const std::vector<SharedOperation>& known)
      : section_(root.find("optimizer")), known_(known) {}

  void read(Optimizer& optimizer) {
    resolve(optimizer, section_ == nullptr ? nullptr : section_->value.find("name"),
            "optimizer.name");
    for (size_t i = 0; i < optimizer.groups.size(); ++i) {
      const Value& table = section_->value.find("group")->value.items[i];
      const Member* const name = table.find("name");
      resolve(optimizer.groups[i], name == nullptr ? section_->value.find("name") : name,
              "optimizer.group[" + std::to_string(i) + "].name");
    }
    check_shared_keys();
    if (section_ == nullptr) return;
    for (const Member& member : section_->value.members) {
      if (member.value.is(Kind::kTable)) check_table(member);
    }
  }

 private:
  void resolve(UpdateRule& rule, const Member* name, const std::string& path) {
    rule.operation = nullptr;
    rule.attributes.clear();
    if (rule.name.find('.') == std::string::npos) return;
    std::vector<std::string> names;
    for (const SharedOperation& o : known_) names.push_back(o->name);
    const auto found = std::find_if(known_.begin(), known_.end(),
                                    [&](const auto& o) { return o->name == rule.name; });
    if (found == known_.end())
      fail(name->value.position, path,
           "unknown optimizer " + toml_string(shorten(rule.name)) +
               plugins::host::suggestion(rule.name, names) + " (of plugins)");
    rule.operation = *found;
    rule.attributes = read_attributes(**found, values(**found, name->value.position));
    if (const auto decay = rule.attributes.find("weight_decay"); decay != rule.attributes.end())
      decay->second = rule.weight_decay;
    used_.push_back(*found);
  }

  // Two optimizers of one plugin have one table. A key of both that it leaves out may not have two
  // values, which a resolved configuration could not say.
  void check_shared_keys() const {
    std::map<std::string, std::string> defaults;  // by plugin and key
    for (const SharedOperation& operation : used_) {
      const Member* const table = section_->value.find(plugin_of(*operation));
      for (const Key& key : operation->attributes) {
        if (key.name == "weight_decay" || (table != nullptr && table->value.find(key.name)))
          continue;
        const std::string path = "optimizer." + plugin_of(*operation) + "." + key.name;
        const auto [known, is_new] = defaults.emplace(path, key.default_text);
        if (is_new || known->second == key.default_text) continue;
        fail(section_->value.position, path,
             "missing: two optimizers have different defaults, " + known->second + " and " +
                 key.default_text + "; give the key");
      }
    }
  }

  static std::string plugin_of(const OpenOperation& operation) {
    return operation.name.substr(0, operation.name.find('.'));
  }

  std::map<std::string, Value> values(const OpenOperation& operation, const Position& position) {
    std::map<std::string, Value> values;
    const std::string path = "optimizer." + plugin_of(operation);
    const Member* const table = section_->value.find(plugin_of(operation));
    for (const Key& key : operation.attributes) {
      const Member* const member = table == nullptr ? nullptr : table->value.find(key.name);
      if (member != nullptr) {
        check_value(member->value, key, path + "." + key.name);
        values[key.name] = member->value;
      } else if (key.required && key.name != "weight_decay") {
        fail(position, path + "." + key.name,
             "missing: " + operation.name + " needs it; expected " + describe_type(key));
      }
    }
    return values;
  }

  void check_table(const Member& table) const {
    std::vector<Key> keys;
    for (const SharedOperation& operation : used_) {
      if (plugin_of(*operation) != table.key) continue;
      for (const Key& key : operation->attributes) {
        if (key.name != "weight_decay") keys.push_back(key);
      }
    }
    if (keys.empty())
      fail(table.position, "optimizer." + shorten(table.key),
           "is not used: no optimizer with keys of that plugin is named; set optimizer.name = " +
               toml_string(shorten(table.key) + ".<name>") + ", or remove the table");
    check_known(table.value, keys, "optimizer." + table.key);
  }

  const Member* section_;
  const std::vector<SharedOperation>& known_;
  std::vector<SharedOperation> used_;
};

}  // namespace

Value default_value(const Key& key) {
  return parse_toml("value = " + key.default_text, "default").members.front().value;
}

void check_default(const Key& key) {
  if (!key.default_text.empty()) check_value(default_value(key), key, key.name);
}

AttributeValues read_attributes(const OpenOperation& operation,
                                const std::map<std::string, Value>& values) {
  AttributeValues result;
  for (const Key& key : operation.attributes) {
    const auto given = values.find(key.name);
    if (given != values.end()) {
      result[key.name] = attribute_of(given->second, key.type);
    } else if (key.default_text.empty()) {
      result[key.name] = int64_t{0};  // weight_decay, which the rule gives
    } else {
      result[key.name] = attribute_of(default_value(key), key.type);
    }
  }
  return result;
}

FindOpenTypes open_types_of(const Config& config) {
  OpenTypes open;
  const auto& types = config.model.types;
  for (const LayerType& type : types == nullptr ? LayerTypes{} : *types) {
    if (type.operation != nullptr) open.layers.push_back(type);
  }
  const auto add = [&](const UpdateRule& rule) {
    if (rule.operation != nullptr) open.optimizers.push_back(rule.operation);
  };
  add(config.optimizer);
  for (const OptimizerGroup& group : config.optimizer.groups) add(group);
  return [open](const std::vector<std::string>&) { return open; };
}

bool uses_open_types(const Value& root) {
  const Member* const model = root.find("model");
  const Member* const layers = model == nullptr ? nullptr : model->value.find("layers");
  if (layers != nullptr && any_open_layer(layers->value)) return true;
  const Member* const optimizer = root.find("optimizer");
  if (optimizer == nullptr) return false;
  const Member* const groups = optimizer->value.find("group");
  return has_dot(optimizer->value, "name") ||
         (groups != nullptr &&
          std::any_of(groups->value.items.begin(), groups->value.items.end(),
                      [](const Value& group) { return has_dot(group, "name"); }));
}

void read_open_optimizers(const Value& root, const std::vector<SharedOperation>& known,
                          Optimizer& optimizer) {
  OptimizerReader(root, known).read(optimizer);
}

}  // namespace runtime::config
