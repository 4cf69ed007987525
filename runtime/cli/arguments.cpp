// Adds CONFIG, --set and options of ranks to a command, loads the file, and offers services to
// plugins.
#include "runtime/cli/arguments.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "plugins/host/program.h"
#include "runtime/error.h"
#include "runtime/model/layer_types.h"
#include "runtime/system/available_memory.h"
#include "runtime/train/open_types.h"

namespace runtime::cli {

std::vector<config::Override> ConfigArguments::all_overrides() const {
  std::vector<config::Override> list;
  if (ranks > 0) list.push_back({"launch.ranks", std::to_string(ranks), "--nproc"});
  if (max_restarts >= 0)
    list.push_back({"launch.max_restarts", std::to_string(max_restarts), "--max-restarts"});
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw ConfigurationError("--set " + text +
                               ": expected section.key=value, for example --set optimizer.lr=0.1");
    }
    list.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  list.insert(list.end(), options.begin(), options.end());
  return list;
}

config::Config ConfigArguments::load() const {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw ConfigurationError("cannot read configuration " + path +
                             ": it does not exist or cannot be read; check the path. " +
                             installed_configurations());
  }
  return config::load(path, all_overrides(), preset_folder(), model::layer_types(),
                      train::find_open_types(host_services()));
}

void start_from(config::Model& model, const std::string& weights) {
  model.init_from = weights;
  model.init_except.clear();
  model.init_append.clear();
}

std::string ConfigArguments::weights_or_own(const std::string& given) const {
  const auto own = std::filesystem::path(path).parent_path() / "weights.safetensors";
  if (!given.empty()) return given;
  if (std::filesystem::exists(own)) return own.string();
  throw ConfigurationError("--weights is not given, and " + own.string() +
                           ", the file of a run, is not there; name a file with --weights FILE");
}

std::string installed_configurations() {
  return "Configurations to begin with are in " +
         std::filesystem::path(preset_folder()).parent_path().string();
}

std::string installed_documents() {
  const auto program = plugins::host::program_path().parent_path();
  return "README.md there describes every key; the other documents are in " +
         (program / "../share/doc/runtime").lexically_normal().string();
}

std::string preset_folder() {
  return (plugins::host::program_path().parent_path() / "../share/runtime/configs/presets")
      .lexically_normal()
      .string();
}

plugins::host::HostServices host_services(std::function<bool()> stop_requested) {
  plugins::host::HostServices services;
  services.available_memory = system::available_memory;
  services.stop_requested = std::move(stop_requested);
  services.log = [](int32_t level, const std::string& component, const std::string& text) {
    if (level < RT_LOG_WARNING) return;
    std::fprintf(stderr, "%s: %s: %s\n", level == RT_LOG_WARNING ? "warning" : "error",
                 component.c_str(), text.c_str());
  };
  return services;
}

}  // namespace runtime::cli
