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

// Reads the table of one layer into a Layer: every key that the schema lists for its type.
class LayerReader {
 public:
  LayerReader(const Value& table, const LayerType& type, const std::string& path)
      : table_(table), type_(type), path_(path) {
    layer_.type = type.name;
    layer_.location = table.position.location();
  }

  Layer read() {
    for (const Key& key : type_.keys) read_key(key);
    check_names();
    if (layer_.strings.contains("tie") && !layer_.strings.at("tie").empty()) check_tie();
    if (layer_.type == "conv2d") check_convolution();
    if (layer_.integers.contains("kernel_h")) check_pool_padding();
    return std::move(layer_);
  }

 private:
  Position position(const std::string& key) const {
    const Member* member = table_.find(key);
    return member == nullptr ? table_.position : member->value.position;
  }

  std::string path(const std::string& key) const { return path_ + "." + key; }

  void read_key(const Key& key) {
    const Member* member = table_.find(key.name);
    if (member != nullptr) {
      check_value(member->value, key, path(key.name));
      store(key, member->value);
    } else if (key.required) {
      fail(table_.position, path(key.name),
           "missing: a " + type_.name + " needs it; expected " + describe_type(key));
    } else if (key.default_text.empty()) {
      if (key.type == Type::kPair) store_pair(key.name, integer("kernel_h"), integer("kernel_w"));
    } else {
      store(key, parse_toml("value = " + key.default_text, "default").members.front().value);
    }
  }

  void store(const Key& key, const Value& value) {
    switch (key.type) {
      case Type::kInit:
        layer_.init = read_init(value);
        return;
      case Type::kLayers:
        (key.name == "layers" ? layer_.layers : layer_.shortcut) =
            read_layers(value, path(key.name));
        return;
      case Type::kPair:
      case Type::kPadding:
        return store_window(key, value);
      case Type::kBoolean:
        layer_.integers[key.name] = value.boolean ? 1 : 0;
        return;
      case Type::kNumber:
        return store_number(key, value);
      case Type::kString:
        return store_string(key, value);
      default:
        break;
    }
    (key.name == "repeat" ? layer_.repeat : layer_.integers[key.name]) = value.integer;
  }

  void store_number(const Key& key, const Value& value) {
    const double number =
        value.is(Kind::kInteger) ? static_cast<double>(value.integer) : value.number;
    (key.name == "l2" ? layer_.l2 : layer_.numbers[key.name]) = number;
  }

  void store_string(const Key& key, const Value& value) {
    (key.name == "name"         ? layer_.name
     : key.name == "activation" ? layer_.activation
                                : layer_.strings[key.name]) = value.string;
  }

  void store_window(const Key& key, const Value& value) {
    if (value.is(Kind::kString)) {
      layer_.strings[key.name] = value.string;
    } else if (value.is(Kind::kArray)) {
      store_pair(key.name, value.items[0].integer, value.items[1].integer);
    } else {
      store_pair(key.name, value.integer, value.integer);
    }
  }

  void store_pair(const std::string& key, int64_t h, int64_t w) {
    layer_.integers[key + "_h"] = h;
    layer_.integers[key + "_w"] = w;
  }

  int64_t integer(const std::string& key) const { return layer_.integers.at(key); }

  // Names become elements of "layer1.0.conv1.weight", in files and in patterns of model.freeze, so
  // they may hold only certain characters.
  void check_names() const {
    const std::string& name = layer_.name;
    const auto allowed = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-' || c == '.';
    };
    const bool bad_dot =
        name.starts_with('.') || name.ends_with('.') || name.find("..") != std::string::npos;
    if (std::all_of(name.begin(), name.end(), allowed) && !bad_dot) return;
    fail(position("name"), path("name"),
         "wrong value: got string " + toml_string(shorten(name)) +
             ", expected letters, digits, _ and -, in parts joined by single dots");
  }

  // A tied layer has no weight of its own that these keys could describe.
  void check_tie() const {
    for (const char* key : {"init", "l2", "file_layout", "shard"}) {
      if (table_.find(key) == nullptr) continue;
      fail(position(key), path(key),
           "describes a weight, but a tied layer uses the weight of the embedding; remove it, or "
           "remove tie");
    }
  }

  void check_convolution() const {
    if (integer("channels") % integer("groups") != 0) {
      fail(position("groups"), path("groups"),
           "wrong value: got " + std::to_string(integer("groups")) + ", expected a divisor of " +
               "channels, " + std::to_string(integer("channels")));
    }
  }

  void check_pool_padding() const {
    if (layer_.type == "conv2d") return;
    for (const char* side : {"_h", "_w"}) {
      const int64_t padding = integer(std::string("padding") + side);
      const int64_t kernel = integer(std::string("kernel") + side);
      if (padding < kernel) continue;
      fail(position("padding"), path("padding"),
           "out of range: got " + std::to_string(padding) + ", expected less than the kernel, " +
               std::to_string(kernel));
    }
  }

  const Value& table_;
  const LayerType& type_;
  std::string path_;
  Layer layer_;
};

const LayerType& type_of(const Value& table, const std::string& path) {
  if (!table.is(Kind::kTable)) {
    fail(table.position, path,
         "wrong value: got " + describe(table) + ", expected a table like { type = \"relu\" }");
  }
  const Member* type = table.find("type");
  if (type == nullptr) {
    fail(table.position, path + ".type",
         "missing: every layer needs a type; known: " + join_names(names_of(layer_types())));
  }
  if (!type->value.is(Kind::kString)) {
    fail(type->value.position, path + ".type",
         "wrong value: got " + describe(type->value) + ", expected the name of a layer type");
  }
  const LayerType* known = find_layer_type(type->value.string);
  if (known != nullptr) return *known;
  fail(type->value.position, path + ".type",
       "unknown layer type \"" + shorten(type->value.string) + "\"" +
           suggestion(type->value.string, names_of(layer_types())));
}

Layer read_layer(const Value& table, const std::string& path) {
  const LayerType& type = type_of(table, path);
  for (const Member& member : table.members) {
    if (member.key == "type" || find_key(type.keys, member.key) != nullptr) continue;
    fail(member.position, path + "." + shorten(member.key),
         "unknown key of " + type.name + suggestion(member.key, names_of(type.keys)));
  }
  Layer layer = LayerReader(table, type, path).read();
  const bool holds_layers = find_key(type.keys, "layers") != nullptr;
  if (holds_layers && layer.layers.empty()) {
    fail(table.find("layers")->value.position, path + ".layers",
         "wrong value: got an empty list, expected at least one layer");
  }
  return layer;
}

// Parameters are found by name, so two layers of one list must not have the same name.
void check_unique(const std::vector<Layer>& layers, const std::vector<Layer>& beside,
                  const Position& position, const std::string& path) {
  std::set<std::string> seen;
  for (const auto* list : {&layers, &beside}) {
    for (const Layer& layer : *list) {
      if (layer.name.empty() || seen.insert(layer.name).second) continue;
      const Location& at = layer.location;
      fail({position.file, at.line, at.column}, path,
           "two layers are named \"" + shorten(layer.name) +
               "\", expected unique names; rename one");
    }
  }
}

}  // namespace

std::vector<Layer> read_layers(const Value& value, const std::string& path) {
  std::vector<Layer> layers;
  layers.reserve(value.items.size());
  for (size_t i = 0; i < value.items.size(); ++i) {
    const std::string item = path + "[" + std::to_string(i) + "]";
    layers.push_back(read_layer(value.items[i], item));
    const Layer& layer = layers.back();
    check_unique(layer.layers, layer.shortcut, value.items[i].position, item);
  }
  check_unique(layers, {}, value.position, path);
  return layers;
}

int64_t expanded_size(const std::vector<Layer>& layers) {
  int64_t total = 0;
  for (const Layer& layer : layers) {
    const int64_t inside = 1 + expanded_size(layer.layers) + expanded_size(layer.shortcut);
    total = std::min(kMaxLayers + 1, total + inside * layer.repeat);  // inside <= 2 kMaxLayers + 3
  }
  return total;
}

}  // namespace runtime::config
