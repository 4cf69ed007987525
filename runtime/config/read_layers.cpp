// Reads the tables of layers, checks their names, and counts what `repeat` makes of them.
#include <algorithm>
#include <set>

#include "plugins/host/nearest.h"
#include "runtime/config/format.h"
#include "runtime/config/read.h"

namespace runtime::config {
namespace {

using plugins::host::join_names;
using plugins::host::suggestion;
using Kind = Value::Kind;

// Reads the table of one layer into a Layer: every key of its type.
class LayerReader {
 public:
  LayerReader(const Value& table, const LayerTypes& types, const LayerType& type,
              const std::string& path)
      : table_(table), types_(types), path_(path) {
    layer_.type = &type;
    layer_.position = table.position;
  }

  Layer read() {
    for (const Key& key : layer_.type->keys) read_key(key);
    if (const Value* name = layer_.find("name")) layer_.name = name->string;
    if (const Value* repeat = layer_.find("repeat")) layer_.repeat = repeat->integer;
    check_name();
    if (layer_.type->check) layer_.type->check(layer_, path_);
    return std::move(layer_);
  }

 private:
  std::string path(const std::string& key) const { return path_ + "." + key; }

  void read_key(const Key& key) {
    const Member* member = table_.find(key.name);
    if (member != nullptr) {
      check_value(member->value, key, path(key.name));
      store(key, member->value);
    } else if (key.required) {
      fail(table_.position, path(key.name),
           "missing: a " + layer_.type->name + " needs it; expected " + describe_type(key));
    } else if (!key.default_text.empty()) {
      Value value = default_value(key);
      value.position = table_.position;
      store(key, value);
    }
  }

  void store(const Key& key, const Value& value) {
    if (key.type == Type::kLayers)
      layer_.lists[key.name] = read_layers(value, path(key.name), types_);
    else
      layer_.values[key.name] = value;
  }

  // Names become elements of "layer1.0.conv1.weight", in files and in patterns of model.freeze, so
  // they may hold only certain characters.
  void check_name() const {
    const std::string& name = layer_.name;
    const auto allowed = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-' || c == '.';
    };
    const bool bad_dot =
        name.starts_with('.') || name.ends_with('.') || name.find("..") != std::string::npos;
    if (std::all_of(name.begin(), name.end(), allowed) && !bad_dot) return;
    fail(layer_.find("name")->position, path("name"),
         "wrong value: got string " + toml_string(shorten(name)) +
             ", expected letters, digits, _ and -, in parts joined by single dots");
  }

  const Value& table_;
  const LayerTypes& types_;
  std::string path_;
  Layer layer_;
};

const LayerType& type_of(const Value& table, const std::string& path, const LayerTypes& types) {
  if (!table.is(Kind::kTable)) fail_wrong(table, path, "a table like { type = \"relu\" }");
  const Member* type = table.find("type");
  if (type == nullptr) {
    fail(table.position, path + ".type",
         "missing: every layer needs a type; known: " + join_names(names_of_rows(types)));
  }
  if (!type->value.is(Kind::kString))
    fail_wrong(type->value, path + ".type", "the name of a layer type");
  const LayerType* known = find_choice(types, type->value.string);
  if (known != nullptr) return *known;
  fail(type->value.position, path + ".type",
       "unknown layer type \"" + shorten(type->value.string) + "\"" +
           suggestion(type->value.string, names_of_rows(types)));
}

Layer read_layer(const Value& table, const std::string& path, const LayerTypes& types) {
  const LayerType& type = type_of(table, path, types);
  for (const Member& member : table.members) {
    if (member.key == "type" || find_key(type.keys, member.key) != nullptr) continue;
    fail(member.position, path + "." + shorten(member.key),
         "unknown key of " + type.name + suggestion(member.key, names_of_rows(type.keys)));
  }
  Layer layer = LayerReader(table, types, type, path).read();
  const auto inside = layer.lists.find("layers");
  if (inside != layer.lists.end() && inside->second.empty()) {
    fail(table.find("layers")->value.position, path + ".layers",
         "wrong value: got an empty list, expected at least one layer");
  }
  return layer;
}

// Parameters are found by name, so two layers of one list must not have the same name. The lists
// inside of one layer count as one.
void check_unique(const std::vector<const std::vector<Layer>*>& lists, const Position& position,
                  const std::string& path) {
  std::set<std::string> seen;
  for (const auto* list : lists) {
    for (const Layer& layer : *list) {
      if (layer.name.empty() || seen.insert(layer.name).second) continue;
      fail({position.file, layer.position.line, layer.position.column}, path,
           "two layers are named \"" + shorten(layer.name) +
               "\", expected unique names; rename one");
    }
  }
}

}  // namespace

std::vector<Layer> read_layers(const Value& value, const std::string& path,
                               const LayerTypes& types) {
  std::vector<Layer> layers;
  layers.reserve(value.items.size());
  for (size_t i = 0; i < value.items.size(); ++i) {
    const std::string item = path + "[" + std::to_string(i) + "]";
    layers.push_back(read_layer(value.items[i], item, types));
    std::vector<const std::vector<Layer>*> inside;
    for (const auto& [key, list] : layers.back().lists) inside.push_back(&list);
    check_unique(inside, value.items[i].position, item);
  }
  check_unique({&layers}, value.position, path);
  return layers;
}

int64_t expanded_size(const std::vector<Layer>& layers) {
  int64_t total = 0;
  for (const Layer& layer : layers) {
    int64_t inside = 1;
    for (const auto& [key, list] : layer.lists) inside += expanded_size(list);
    total = std::min(kMaxLayers + 1, total + inside * layer.repeat);  // inside <= 2 kMaxLayers + 3
  }
  return total;
}

}  // namespace runtime::config
