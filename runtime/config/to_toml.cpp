// Writes a Config as TOML, with the documentation of each key if asked for.
#include <algorithm>
#include <map>

#include "runtime/config/declare.h"
#include "runtime/config/format.h"
#include "runtime/config/toml_text.h"

namespace runtime::config {
namespace {

std::string text_of_layers(const std::vector<Layer>& layers, int indent);

// Writes a layer on one line; a nested list takes one line for each of its layers.
class LayerWriter {
 public:
  LayerWriter(const Layer& layer, int indent) : layer_(layer), indent_(indent) {}

  std::string write() {
    text_ = std::string("{ type = ").append(toml_string(layer_.type->name));
    for (const Key& key : layer_.type->keys) write_key(key);
    return text_ + " }";
  }

 private:
  void add(const std::string& key, const std::string& value) {
    text_ += ", " + key + " = " + value;
  }

  void write_key(const Key& key) {
    if (const auto list = layer_.lists.find(key.name); list != layer_.lists.end()) {
      if (!list->second.empty()) add(key.name, text_of_layers(list->second, indent_ + 2));
    } else if (const Value* value = layer_.find(key.name)) {
      const std::string text = toml_text(*value);
      if (!key.brief || text != key.default_text) add(key.name, text);
    }
  }

  const Layer& layer_;
  int indent_;
  std::string text_;
};

std::string text_of_layers(const std::vector<Layer>& layers, int indent) {
  std::string text = "[\n";
  for (const Layer& layer : layers) {
    text += std::string(indent, ' ') + LayerWriter(layer, indent).write() + ",\n";
  }
  return text + std::string(indent - 2, ' ') + "]";
}

// A table takes one line.
template <class Item>
std::string text_of_tables(const std::vector<Item>& tables);

// The value of a key's member as TOML.
struct TextOf {
  std::string operator()(const std::vector<Layer>* layers) const {
    return text_of_layers(*layers, 2);
  }
  std::string operator()(const std::vector<OptimizerGroup>* groups) const {
    return text_of_tables(*groups);
  }
  std::string operator()(const std::vector<DatasetInput>* inputs) const {
    return text_of_tables(*inputs);
  }
  template <class Member>
  std::string operator()(const Member* member) const {
    return toml_text(*member);
  }
};

template <class Item>
std::string text_of_tables(const std::vector<Item>& tables) {
  if (tables.empty()) return "[]";
  std::string text = "[";
  for (Item table : tables) {  // a copy, because the schema's members are not const
    std::string keys;
    for (const KeyOf<Item>& key : keys_of_tables(&table))
      keys += (keys.empty() ? " " : ", ") + key.declared.name + " = " +
              std::visit(TextOf(), key.field(table));
    text += "\n  {" + keys + " },";
  }
  return text + "\n]";
}

// Returns `text` as one comment line; a line break would end the comment.
std::string comment(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return std::string("# ").append(text);
}

class Writer {
 public:
  void section(const Section& section, Config& config) {
    if (!text_.empty()) text_ += "\n";
    text_ += comment(section.documentation) + "\n[" + section.name + "]\n";
    for (const Key& key : section.keys) {
      if (section.name == "model" && key.name == "preset") continue;  // the layers stand for it
      std::visit([&](const auto* member) { this->key(section, key, *member); }, key.field(config));
    }
  }

  void options(const std::string& section, const PluginOptions& all) {
    for (const auto& [plugin, options] : all) {
      text_ += "\n[" + section + "." + toml_string(plugin) + "]\n";
      for (const auto& [key, value] : options)
        text_ += toml_string(key) + " = " + toml_string(value) + "\n";
    }
  }

  // [optimizer.<plugin>]: the attributes of the plugins' rules, without those that rules give.
  void open_optimizers(const Optimizer& optimizer) {
    std::map<std::string, std::map<std::string, std::string>> tables;
    const auto add = [&](const UpdateRule& rule) {
      if (rule.operation == nullptr) return;
      for (const Key& key : rule.operation->attributes) {
        if (key.name == "weight_decay") continue;
        tables[rule.name.substr(0, rule.name.find('.'))][key.name] =
            attribute_text(rule.attributes.at(key.name), key.type);
      }
    };
    add(optimizer);
    for (const OptimizerGroup& group : optimizer.groups) add(group);
    for (const auto& [plugin, keys] : tables) {
      text_ += "\n[optimizer." + plugin + "]\n";
      for (const auto& [key, value] : keys) text_ += key + " = " + value + "\n";
    }
  }

  std::string text() const { return text_; }

 private:
  static std::string attribute_text(const std::variant<int64_t, double>& value, Type type) {
    if (const auto* number = std::get_if<double>(&value)) return toml_text(*number);
    const int64_t integer = std::get<int64_t>(value);
    return type == Type::kBoolean ? toml_text(integer != 0) : toml_text(integer);
  }

  static bool is_exclusive(const Section& section, const Key& key) {
    return std::any_of(exclusives().begin(), exclusives().end(), [&](const Exclusive& pair) {
      return pair.section == section.name && (pair.first == key.name || pair.second == key.name);
    });
  }

  template <class Member>
  void key(const Section& section, const Key& key, const Member& member) {
    // Two keys of an exclusive pair cannot both be written, so the one that has its default is left
    // out.
    if constexpr (std::is_arithmetic_v<Member> || std::is_same_v<Member, std::string>) {
      if (is_exclusive(section, key) && member == Member{}) return;
    }
    line(key, TextOf()(&member));
  }

  void line(const Key& key, const std::string& value) {
    text_ += comment(key.documentation) + "\n" + key.name + " = " + value + "\n";
  }

  std::string text_;
};

}  // namespace

std::string to_toml(const Config& config) {
  Writer writer;
  Config copy = config;  // the schema's members are not const
  for (const Section& section : sections()) writer.section(section, copy);
  writer.options("device", config.device.options);
  writer.options("comm", config.comm.options);
  writer.options("dataset", config.dataset.options);
  writer.open_optimizers(config.optimizer);
  return writer.text();
}

}  // namespace runtime::config
