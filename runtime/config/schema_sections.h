// How a section of the schema and its keys are declared.
#ifndef RUNTIME_CONFIG_SCHEMA_SECTIONS_H_
#define RUNTIME_CONFIG_SCHEMA_SECTIONS_H_

#include <utility>

#include "runtime/config/config.h"
#include "runtime/config/schema.h"

namespace runtime::config {

inline constexpr double kMaxCount = 1e15;  // largest number of epochs, steps or samples; exact as a
                                           // double

// Range with both bounds included.
inline Range at_least(double minimum, double maximum = std::numeric_limits<double>::infinity()) {
  return {.minimum = minimum, .maximum = maximum};
}

inline Range from_zero_to_below(double maximum) {
  return {.minimum = 0, .maximum = maximum, .open_maximum = true};
}

inline Range above_zero() { return {.minimum = 0, .open_minimum = true}; }

// A key of the section that is read into an `S`, while it is declared.
template <class S>
struct KeyOf {
  Key declared;
  std::function<Field(S&)> field;

  // The allowed values; by default every value of the type.
  KeyOf in(const Range& range) && {
    declared.range = range;
    return std::move(*this);
  }
  KeyOf one_of(std::vector<std::string> choices) && {
    declared.choices = std::move(choices);
    return std::move(*this);
  }
  KeyOf at_most(size_t items) && {
    declared.max_items = items;
    return std::move(*this);
  }
  // The type, where the type of the member does not tell it: a path, or "auto" instead of 0.
  KeyOf as(Type type) && {
    declared.type = type;
    return std::move(*this);
  }
  // The file must give the key.
  KeyOf required() && {
    declared.required = true;
    return std::move(*this);
  }
};

// The type of a key whose value is in that member.
Type type_of(const Field& field);
// The value in that member as TOML; a 0 or an empty list of a type with "auto" is "auto".
std::string default_text(const Field& field, Type type);

// Declares a key whose value is in `member`.
template <class S, class M>
KeyOf<S> key(const std::string& name, M S::*member, const std::string& documentation) {
  M* const any = nullptr;
  return {{.name = name, .type = type_of(any), .documentation = documentation},
          [member](S& values) -> Field { return &(values.*member); }};
}

// Declares a section whose values are in `member` of the Config.
template <class S>
Section section(const std::string& name, S Config::*member, const std::string& documentation,
                std::vector<KeyOf<S>> keys) {
  Section all{name, documentation, {}};
  S defaults;
  for (KeyOf<S>& k : keys) {
    Key key = std::move(k.declared);
    if (!key.required) key.default_text = default_text(k.field(defaults), key.type);
    key.field = [member, field = std::move(k.field)](Config& c) { return field(c.*member); };
    all.keys.push_back(std::move(key));
  }
  return all;
}

// Sections that are listed in schema_training.cpp.
Section training();
Section optimizer();
Section lr_scheduler();

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_SCHEMA_SECTIONS_H_
