// What the files that list the sections share.
#ifndef RUNTIME_CONFIG_SCHEMA_SECTIONS_H_
#define RUNTIME_CONFIG_SCHEMA_SECTIONS_H_

#include "runtime/config/schema.h"

namespace runtime::config {

inline constexpr double kMaxCount = 1e15;  // epochs, steps, samples; exact as double

inline Range at_least(double minimum, double maximum = std::numeric_limits<double>::infinity()) {
  return {.minimum = minimum, .maximum = maximum};
}

inline Range from_zero_to_below(double maximum) {
  return {.minimum = 0, .maximum = maximum, .open_maximum = true};
}

inline Range above_zero() { return {.minimum = 0, .open_minimum = true}; }

// schema_training.cpp
Section training();
Section optimizer();
Section lr_scheduler();

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_SCHEMA_SECTIONS_H_
