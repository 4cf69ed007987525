// Settings of a job, which tests put together.
#ifndef TESTS_RUNTIME_TRAIN_SETTINGS_H_
#define TESTS_RUNTIME_TRAIN_SETTINGS_H_

#include <vector>

#include "runtime/config/config.h"

namespace runtime::train {

using Settings = std::vector<config::Override>;

// All settings of both; where both have a key, that of `b` counts.
inline Settings operator+(Settings a, const Settings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace runtime::train

#endif  // TESTS_RUNTIME_TRAIN_SETTINGS_H_
