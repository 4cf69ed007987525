#include <filesystem>

#include "runtime/config/config.h"
#include "runtime/config/read.h"
#include "runtime/config/source.h"
#include "runtime/config/validate.h"

namespace runtime::config {
namespace {

// debug.deterministic promises the same bits on any number of ranks. Batch normalisation therefore
// computes its statistics over the global batch, which does not depend on the ranks.
void resolve_batch_norm(Config& config) {
  if (config.debug.deterministic && has_layer(config.model.layers, "batch_norm"))
    config.parallelism.sync_batch_norm = true;
}

Config finish(Value root, const std::string& name, const std::vector<Override>& overrides,
              const std::string& preset_folder, const LayerTypes& types) {
  merge(root, read_overrides(overrides));
  expand_preset(root, preset_folder);
  Config config = read_config(root, types);
  config.name = name;
  validate(config, root);
  resolve_batch_norm(config);
  return config;
}

}  // namespace

Config load(const std::string& path, const std::vector<Override>& overrides,
            const std::string& preset_folder, const LayerTypes& types) {
  const std::string name = std::filesystem::path(path).stem().string();
  return finish(read_file(path), name, overrides, preset_folder, types);
}

Config load_text(std::string_view text, const std::string& name,
                 const std::vector<Override>& overrides, const std::string& preset_folder,
                 const LayerTypes& types) {
  return finish(read_text(text, name + ".toml"), name, overrides, preset_folder, types);
}

}  // namespace runtime::config
