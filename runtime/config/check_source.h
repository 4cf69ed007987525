// Checks of one file or one command line before it is merged with others.
#ifndef RUNTIME_CONFIG_CHECK_SOURCE_H_
#define RUNTIME_CONFIG_CHECK_SOURCE_H_

#include "runtime/config/value.h"

namespace runtime::config {

// Throws ConfigurationError for unknown sections and keys, for a section that is not a table and
// for two keys of an exclusive pair in one document.
void check_source(const Value& root);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_CHECK_SOURCE_H_
