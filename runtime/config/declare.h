// How sections, types of layers and their keys are declared.
#ifndef RUNTIME_CONFIG_DECLARE_H_
#define RUNTIME_CONFIG_DECLARE_H_

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

// A choice, and what it is or what a key does for it.
struct KeyUse {
  std::string choice, documentation;
};
// Returns "step, plateau: a factor; exponential: another factor".
std::string join_uses(const std::vector<KeyUse>& uses);

// Builds the declaration of a key: each function sets a property and returns the builder. `Derived`
// stores which member receives the value of the key.
template <class Derived>
struct Declaration {
  Key declared;
  std::string needs = {};                // why a choice cannot do without the key; "": it can
  std::vector<double> own_default = {};  // of a choice, where the section's default says nothing
  bool is_tolerated = false;             // where a choice does not use it, it is not refused

  // The allowed values; by default every value of the type.
  Derived in(const Range& range) && {
    declared.range = range;
    return done();
  }
  Derived one_of(std::vector<std::string> choices) && {
    declared.choices = std::move(choices);
    return done();
  }
  // The same, with what each of them is.
  Derived one_of_rows(const std::vector<KeyUse>& choices) && {
    for (const KeyUse& use : choices) declared.choices.push_back(use.choice);
    declared.documentation += ". " + join_uses(choices);
    return done();
  }
  Derived at_most(size_t items) && {
    declared.max_items = items;
    return done();
  }
  // Beside the choices, the name of what a plugin brings: "<plugin>.<name>".
  Derived or_of_plugin() && {
    declared.or_of_plugin = true;
    return done();
  }
  // The type, where the type of the member does not tell it: a path, or "auto" instead of 0.
  Derived as(Type type) && {
    declared.type = type;
    return done();
  }
  // The file must give the key.
  Derived required() && {
    declared.required = true;
    declared.default_text.clear();
    return done();
  }
  // The choice needs it: "the epochs of its decays".
  Derived needed(const std::string& why) && {
    needs = why;
    return done();
  }
  // Files may keep the key when they change the choice to one that does not use it.
  Derived tolerated() && {
    is_tolerated = true;
    return done();
  }
  // The value for this choice where the key has the section's default, which is 0 or empty.
  Derived otherwise(std::vector<double> values) && {
    own_default = std::move(values);
    return done();
  }
  // Leaves the key of a layer out of resolved configurations where it has its default.
  Derived brief() && {
    declared.brief = true;
    return done();
  }

 private:
  Derived done() { return std::move(static_cast<Derived&>(*this)); }
};

// A key of the section that is read into an `S`.
template <class S>
struct KeyOf : Declaration<KeyOf<S>> {
  std::function<Field(S&)> field;
};

// Returns what the documentation of a key adds about the own default of a choice.
std::string own_default_text(const Type& type, const std::vector<double>& own_default);

// The type of a key whose value is stored in the member that `field` points to.
Type type_of(const Field& field);
// The value of that member as TOML; a 0 or an empty list of a type with "auto" is "auto".
std::string default_text(const Field& field, Type type);

// Declares a key whose value is in `member`.
template <class S, class M>
KeyOf<S> key(const std::string& name, M S::*member, const std::string& documentation) {
  M* const any = nullptr;
  KeyOf<S> made;
  made.declared = {.name = name, .type = type_of(any), .documentation = documentation};
  made.field = [member](S& values) -> Field { return &(values.*member); };
  return made;
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

// The keys of a table of `group` in [optimizer], and of `input` in [dataset].
const std::vector<KeyOf<OptimizerGroup>>& keys_of_tables(const OptimizerGroup*);
const std::vector<KeyOf<DatasetInput>>& keys_of_tables(const DatasetInput*);

// These are defined in schema_training.cpp.
Section training();
Section optimizer();
Section lr_scheduler();

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_DECLARE_H_
