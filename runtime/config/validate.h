// Rules that concern more than one key.
#ifndef RUNTIME_CONFIG_VALIDATE_H_
#define RUNTIME_CONFIG_VALIDATE_H_

#include "runtime/config/config.h"
#include "runtime/config/value.h"

namespace runtime::config {

// Throws ConfigurationError at the place in `root` (what `config` was read from) that says it.
void validate(const Config& config, const Value& root);

// Does a layer, or one inside it, have this type?
bool has_layer(const std::vector<Layer>& layers, const std::string& type);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_VALIDATE_H_
