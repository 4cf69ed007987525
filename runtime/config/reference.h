// The reference of every key in Markdown, which is the second half of configs/README.md.
#ifndef RUNTIME_CONFIG_REFERENCE_H_
#define RUNTIME_CONFIG_REFERENCE_H_

#include <string>

#include "runtime/config/schema.h"

namespace runtime::config {

// The line of configs/README.md after which everything is the text of reference_markdown().
inline constexpr char kReferenceMark[] =
    "<!-- From here on written by config_reference out of the schema; do not edit. -->\n";

// Returns one table for each section and each type of layer, from the schema and
// the types of layers.
std::string reference_markdown(const LayerTypes& types);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_REFERENCE_H_
