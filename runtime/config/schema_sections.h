// What schema.cpp and the files beside it share to list the sections.
#ifndef RUNTIME_CONFIG_SCHEMA_SECTIONS_H_
#define RUNTIME_CONFIG_SCHEMA_SECTIONS_H_

#include <utility>

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

// The functions below make a key of one type; `default_text` is written as in TOML.
inline Key of_type(Type type, const std::string& name, const std::string& default_text,
                   const std::string& documentation) {
  return {.name = name, .type = type, .default_text = default_text, .documentation = documentation};
}

inline Key text(const std::string& name, const std::string& default_text,
                const std::string& documentation) {
  return of_type(Type::kString, name, default_text, documentation);
}

inline Key flag(const std::string& name, const std::string& default_text,
                const std::string& documentation) {
  return of_type(Type::kBoolean, name, default_text, documentation);
}

inline Key integer(const std::string& name, const std::string& default_text, const Range& range,
                   const std::string& documentation) {
  Key key = of_type(Type::kInteger, name, default_text, documentation);
  key.range = range;
  return key;
}

inline Key number(const std::string& name, const std::string& default_text, const Range& range,
                  const std::string& documentation) {
  Key key = of_type(Type::kNumber, name, default_text, documentation);
  key.range = range;
  return key;
}

inline Key choice(const std::string& name, const std::string& default_text,
                  std::vector<std::string> choices, const std::string& documentation) {
  Key key = text(name, default_text, documentation);
  key.choices = std::move(choices);
  return key;
}

// Sections that are listed in schema_training.cpp.
Section training();
Section optimizer();
Section lr_scheduler();

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_SCHEMA_SECTIONS_H_
