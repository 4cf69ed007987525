// Opens data sets whose format a plugin reads (rt/reader.h).
#ifndef RUNTIME_TRAIN_PLUGIN_RECORDS_H_
#define RUNTIME_TRAIN_PLUGIN_RECORDS_H_

#include <string>

#include "plugins/host/registry.h"
#include "runtime/config/config.h"
#include "runtime/data/records.h"
#include "runtime/error.h"

namespace runtime::train {

// A plugin has stopped to open or read samples, because the user asked the process to end.
class ReadingStopped : public DataError {
 public:
  using DataError::DataError;
};

// Checks that dataset.format names a format that a plugin of the registry reads, and that it knows
// the keys of [dataset.<plugin>]. Loads no plugin. Formats of the core are not looked at. Throws
// ConfigurationError for an unknown format or key, plugins::host::Error for an unknown plugin.
void check_plugin_format(const config::Config& config, const plugins::host::Registry& registry);

// Opens the records of options.format, "<plugin>.<name>", with the keys of [dataset.<plugin>] in
// `config`. With the format's flag RT_READER_BOTH_SPLITS the path may hold the validation samples
// too. Loads the plugin, which the records keep. Throws ConfigurationError for an unknown format or
// key, plugins::host::Error for an unknown plugin, DataError for what the plugin cannot read, and
// ReadingStopped.
data::RecordsPair open_plugin_records(const config::Config& config,
                                      const plugins::host::Registry& registry,
                                      const data::DatasetOptions& options);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_PLUGIN_RECORDS_H_
