// Which operations the presets of models use, and what a plugin has to do to train each of them.
#ifndef PLUGINS_CHECK_MODELS_H_
#define PLUGINS_CHECK_MODELS_H_

#include <string>
#include <vector>

#include "plugins/check/check.h"

namespace plugins::check {

// A preset of the runtime (configs/presets) and the operations of its training step.
struct ModelOperations {
  std::string preset;
  std::vector<std::string> operations;
};

// The table. A test compares it with the steps that the runtime compiles.
const std::vector<ModelOperations>& model_operations();

// The name of the check that asks for the whole base set; see "The base set" in
// plugins/operations.md.
inline constexpr const char* kBaseSet = "the base set, with which every model trains";

// What the rows of the group "kernels" mean for one model.
struct ModelState {
  std::string preset;
  std::vector<std::string> own;     // by kernels of the plugin
  std::vector<std::string> others;  // that the core composes, or cannot
  std::vector<std::string> faulty;  // whose kernels failed
  bool trains = false;
};
std::vector<ModelState> model_states(const std::vector<Row>& rows);

// The operations that are worth a kernel, the most useful first: the base set, then what the core
// can compose only slowly, then the rest; of these, what more models use. Empty if nothing is
// missing.
std::vector<std::string> next_operations(const std::vector<Row>& rows);

}  // namespace plugins::check

#endif  // PLUGINS_CHECK_MODELS_H_
