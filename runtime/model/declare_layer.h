// How a type of layer is declared: its keys, and which member of its struct each key sets.
#ifndef RUNTIME_MODEL_DECLARE_LAYER_H_
#define RUNTIME_MODEL_DECLARE_LAYER_H_

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/config/declare.h"
#include "runtime/config/layer.h"
#include "runtime/config/open_operation.h"
#include "runtime/config/read.h"
#include "runtime/model/layer.h"

namespace runtime::model {

// A configuration key of a layer, and how its value is stored in an `L`. L is a struct of layer.h,
// or Layer for the keys that several types of layers have.
template <class L>
struct LayerKey : config::Declaration<LayerKey<L>> {
  // Sets members of `target`. Called if `layer` has the key.
  std::function<void(const config::Layer& layer, L& target)> read;
};

// Returns a key whose value the function `set` stores in the L. It is for keys that the functions
// below do not cover.
template <class L>
LayerKey<L> custom(const config::Key& key, std::function<void(const config::Value&, L&)> set) {
  LayerKey<L> made;
  made.read = [name = key.name, set = std::move(set)](const config::Layer& layer, L& target) {
    set(*layer.find(name), target);
  };
  made.declared = key;
  return made;
}

inline constexpr double kMaxWidth = 16777216;  // channels or features; far above any real layer
inline const config::Range kWidth = {.minimum = 1, .maximum = kMaxWidth};
inline const config::Range kAboveZeroToOne = {.minimum = 0, .maximum = 1, .open_minimum = true};

// A key whose value is in what `member_of` returns of an L. Its default is that of a new L.
template <class L, class MemberOf>
LayerKey<L> key_at(const std::string& name, const std::string& documentation, MemberOf member_of) {
  L defaults{};
  auto* const value = &member_of(defaults);
  const config::Type type = config::type_of(value);
  return custom<L>({.name = name,
                    .type = type,
                    .default_text = config::default_text(value, type),
                    .documentation = documentation},
                   [member_of](const config::Value& v, L& l) { config::assign(v, member_of(l)); });
}

// A key whose value is in `member`, or in the `member` of a `part` of the layer.
template <class L, class M>
LayerKey<L> key(const std::string& name, M L::*member, const std::string& documentation) {
  return key_at<L>(name, documentation, [member](L& l) -> M& { return l.*member; });
}
template <class L, class Part, class M>
LayerKey<L> key(const std::string& name, Part L::*part, M Part::*member,
                const std::string& documentation) {
  return key_at<L>(name, documentation, [part, member](L& l) -> M& { return l.*part.*member; });
}

// Two members that one integer or [h, w] sets.
struct Pair {
  int64_t *h, *w;
};
void assign(const config::Value& value, const Pair& pair);

// A key for two members; `pair_of` returns them.
template <class L>
LayerKey<L> pair(const std::string& name, std::function<Pair(L&)> pair_of,
                 const std::string& documentation) {
  L defaults;
  return custom<L>({.name = name,
                    .type = config::Type::kPair,
                    .default_text = std::to_string(*pair_of(defaults).h),
                    .documentation = documentation + ", an integer or [h, w]"},
                   [pair_of](const config::Value& v, L& l) { assign(v, pair_of(l)); });
}

std::vector<Layer> to_layers(const std::vector<config::Layer>& layers);

// A key whose value is a list of layers.
template <class L>
LayerKey<L> list(const std::string& name, std::vector<Layer> L::*member,
                 const std::string& documentation) {
  LayerKey<L> made;
  made.declared = {.name = name,
                   .type = config::Type::kLayers,
                   .default_text = "[]",
                   .documentation = documentation};
  made.read = [name, member](const config::Layer& layer, L& target) {
    target.*member = to_layers(layer.lists.at(name));
  };
  return made;
}

// Reads the keys that the layer has.
template <class L>
void read_keys(const std::vector<LayerKey<L>>& keys, const config::Layer& layer, L& target) {
  for (const LayerKey<L>& key : keys) {
    const std::string& name = key.declared.name;
    if (layer.values.contains(name) || layer.lists.contains(name)) key.read(layer, target);
  }
}

// A type of layer, and the function that makes such a layer from its configuration.
struct DeclaredLayer {
  config::LayerType type;
  std::function<Layer(const config::Layer&)> make;
};

// The position of a value that was given, else of the layer.
const config::Position& position(const config::Layer& layer, const std::string& key);

// The layer, whose keys `check` compares with each other; it throws ConfigurationError.
DeclaredLayer checked(DeclaredLayer layer,
                      void (*check)(const config::Layer& layer, const std::string& path));

// The keys that several types of layers have; a type names those that it has.
enum CommonKeys : unsigned { kActivation = 1, kRepeat = 2, kWeights = 4 };
std::vector<LayerKey<Layer>> common_keys(unsigned which);

// Declares a type of layer. `initial` has the members that no key sets.
template <class L>
DeclaredLayer declare(const std::string& name, const std::string& documentation,
                      std::vector<LayerKey<std::type_identity_t<L>>> keys, unsigned common = 0,
                      L initial = {}) {
  DeclaredLayer made{{name, documentation, {}, {}}, {}};
  std::vector<LayerKey<Layer>> more = common_keys(common);
  for (const auto& k : keys) made.type.keys.push_back(k.declared);
  for (const auto& k : more) made.type.keys.push_back(k.declared);
  made.make = [keys = std::move(keys), more = std::move(more),
               initial = std::move(initial)](const config::Layer& from) {
    L kind = initial;
    read_keys(keys, from, kind);
    Layer layer;
    layer.kind = std::move(kind);
    read_keys(more, from, layer);
    return layer;
  };
  return made;
}

// The key of layers that contain other layers.
template <class L>
LayerKey<L> prefix() {
  return key("prefix", &L::prefix, "its name goes before the names of the parameters inside");
}

// The types of token_layers.cpp.
std::vector<DeclaredLayer> token_layers();

// Declares a type of layer that is a formula, written as that of a plugin's layer but with a name
// without a dot: each input of the signature behind the first is a learned parameter, each
// attribute a key. A wrong text throws InternalError where a network is built.
DeclaredLayer formula(config::OpenOperation layer);

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_DECLARE_LAYER_H_
