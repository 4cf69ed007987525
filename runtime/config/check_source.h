// What can be said about one file or one command line before it is merged with others.
#ifndef RUNTIME_CONFIG_CHECK_SOURCE_H_
#define RUNTIME_CONFIG_CHECK_SOURCE_H_

#include "runtime/config/value.h"

namespace runtime::config {

// Refuses unknown sections and keys, sections that are no tables and two keys of an exclusive pair.
void check_source(const Value& root);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_CHECK_SOURCE_H_
