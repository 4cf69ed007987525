// Runs the steps from a file to a checked Config in their order.
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

std::vector<std::string> plugin_path(const Value& root) {
  const Member* const section = root.find("plugins");
  const Member* const path = section == nullptr ? nullptr : section->value.find("path");
  std::vector<std::string> folders;
  if (path == nullptr) return folders;
  for (const Value& item : path->value.items) folders.push_back(item.string);
  if (path->value.is(Value::Kind::kString)) folders.push_back(path->value.string);
  return folders;
}

Config read(const Value& root, const LayerTypes& types, const FindOpenTypes& find_open) {
  if (!find_open || !uses_open_types(root)) return read_config(root, types, {});
  const OpenTypes open = find_open(plugin_path(root));
  auto all = std::make_shared<LayerTypes>(types);
  all->insert(all->end(), open.layers.begin(), open.layers.end());
  Config config = read_config(root, *all, open.optimizers);
  config.model.types = std::move(all);
  return config;
}

Config finish(Value root, const std::string& name, const std::vector<Override>& overrides,
              const std::string& preset_folder, const LayerTypes& types,
              const FindOpenTypes& find_open) {
  merge(root, read_overrides(overrides));
  expand_preset(root, preset_folder);
  Config config = read(root, types, find_open);
  config.name = name;
  validate(config, root);
  resolve_batch_norm(config);
  return config;
}

}  // namespace

Config load(const std::string& path, const std::vector<Override>& overrides,
            const std::string& preset_folder, const LayerTypes& types,
            const FindOpenTypes& find_open) {
  const std::string name = std::filesystem::path(path).stem().string();
  return finish(read_file(path), name, overrides, preset_folder, types, find_open);
}

Config load_text(std::string_view text, const std::string& name,
                 const std::vector<Override>& overrides, const std::string& preset_folder,
                 const LayerTypes& types, const FindOpenTypes& find_open) {
  return finish(read_text(text, name + ".toml"), name, overrides, preset_folder, types, find_open);
}

}  // namespace runtime::config
