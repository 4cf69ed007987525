// Reading of files, presets and overrides into one merged document.
#ifndef RUNTIME_CONFIG_SOURCE_H_
#define RUNTIME_CONFIG_SOURCE_H_

#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/config/value.h"

namespace runtime::config {

// All functions throw ConfigurationError. A document that they return has only sections (no
// `extends`), each of them a table with known keys; its paths are absolute.

// Reads the file and merges it over every file that it extends.
Value read_file(const std::string& path);

// Reads a text instead of a file. The text cannot extend files. Relative paths are taken from the
// working folder.
Value read_text(std::string_view text, const std::string& file);

// Returns all --set arguments as one document; of two for the same key the last one counts.
Value read_overrides(const std::vector<Override>& overrides);

// Merges `later` into `base`: sections key by key, and [device.<plugin>] and
// [comm.<plugin>] option by option. Everything else is replaced by `later`, and of two exclusive
// keys the one in `later` stays.
void merge(Value& base, Value later);

// Adds the layers of the preset that model.preset names, if any, to [model].
void expand_preset(Value& root, const std::string& preset_folder);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_SOURCE_H_
