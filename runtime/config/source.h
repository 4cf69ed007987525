// From files, presets and overrides to one merged document.
#ifndef RUNTIME_CONFIG_SOURCE_H_
#define RUNTIME_CONFIG_SOURCE_H_

#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/config/value.h"

namespace runtime::config {

// All throw ConfigurationError. A returned document has sections only (no `extends`), each of them
// a table with known keys, and its paths are absolute.

// The file with everything it extends.
Value read_file(const std::string& path);

// A text instead of a file; it may not extend anything. Relative paths are taken from the working
// folder.
Value read_text(std::string_view text, const std::string& file);

// All --set arguments as one document, the last of two for the same key.
Value read_overrides(const std::vector<Override>& overrides);

// Sections key by key and [device.<plugin>] option by option; everything else is replaced by
// `later`, and of two exclusive keys the one that `later` has stays.
void merge(Value& base, Value later);

// Puts the preset that model.preset names, if any, under [model].
void expand_preset(Value& root, const std::string& preset_folder);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_SOURCE_H_
