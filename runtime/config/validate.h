// Rules about more than one key.
#ifndef RUNTIME_CONFIG_VALIDATE_H_
#define RUNTIME_CONFIG_VALIDATE_H_

#include "runtime/config/config.h"
#include "runtime/config/value.h"

namespace runtime::config {

// Throws ConfigurationError if two or more keys contradict each other. `root` is the document that
// `config` was read from; the message gives the position of the key in it.
void validate(const Config& config, const Value& root);

// Returns whether a layer of the list, or one nested in it, has this type.
bool has_layer(const std::vector<Layer>& layers, const std::string& type);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_VALIDATE_H_
