// The commands checkpoint info, verify, export and reshard.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/cli/commands.h"
#include "runtime/cli/say.h"
#include "runtime/config/config.h"
#include "runtime/error.h"
#include "runtime/model/layer_types.h"
#include "runtime/system/atomic_file.h"
#include "runtime/train/checkpoint/assembly.h"
#include "runtime/train/checkpoint/find.h"
#include "runtime/train/open_types.h"
#include "runtime/train/weights.h"

namespace runtime::cli {

namespace {

namespace fs = std::filesystem;
using train::Manifest;

// The checkpoints that `path` names: one, or all of a run, the newest first.
std::vector<fs::path> checkpoints_at(const fs::path& path) {
  if (train::is_checkpoint(path)) return {path};
  std::vector<fs::path> list = train::list_checkpoints(path / train::kCheckpoints);
  if (!list.empty()) return list;
  throw DataError(path.string() +
                  ": there is no checkpoint; expected the folder of one, or of a run with " +
                  std::string(train::kCheckpoints) + "/");
}

// The one that is meant where one is needed: the newest of a run.
fs::path checkpoint_at(const fs::path& path) {
  return train::checkpoint_at(path,
                              [](const std::string& text) { std::cerr << text << std::endl; });
}

double mebibytes(const Manifest& manifest) {
  double bytes = 0;
  for (const train::SavedFile& file : manifest.files) bytes += static_cast<double>(file.bytes);
  return bytes / (1 << 20);
}

std::string describe(const fs::path& path) {
  const Manifest manifest = train::read_manifest(path);
  const train::SavedState& s = manifest.state;
  std::string text = fmt::format(
      "{}\n  step {}, epoch {}, {:.1f} MiB, saved {}\n  by {} rank{} (data {}, tensor {}, "
      "pipeline {}) on {}\n  data: {}\n",
      path.string(), s.step, s.epoch(), mebibytes(manifest), s.created, s.mesh.size(),
      s.mesh.size() == 1 ? "" : "s", s.mesh.data, s.mesh.tensor, s.mesh.pipeline, s.environment,
      s.data);
  if (s.monitored) text += fmt::format("  validation {}: {:.6g}\n", s.monitor, *s.monitored);
  return text;
}

}  // namespace

void checkpoint_info(const std::string& path) {
  for (const fs::path& one : checkpoints_at(path)) {
    try {
      terminal::print_folded(describe(one));
    } catch (const DataError& error) {
      say("{}\n  damaged: {}\n", one.string(), error.what());
    }
  }
}

void checkpoint_verify(const std::string& path) {
  std::string first;
  for (const fs::path& one : checkpoints_at(path)) {
    try {
      const Manifest manifest = train::verify_checkpoint(one);
      say("{}: whole, {} files, {:.1f} MiB\n", one.string(), manifest.files.size(),
          mebibytes(manifest));
    } catch (const DataError& error) {
      say("{}: damaged\n", one.string());
      if (first.empty()) first = error.what();
    }
  }
  if (!first.empty()) throw DataError(first);
}

// Needs no device: layouts and names come from the model of the saved configuration.
void checkpoint_export(const std::string& path, const std::string& output) {
  const fs::path from = checkpoint_at(path);
  const data::TensorFile all = train::join_checkpoint(from, train::read_manifest(from));
  const config::Config config =
      config::load((from / train::kSavedConfiguration).string(), {}, preset_folder(),
                   model::layer_types(), train::find_open_types(host_services()));
  const model::Network network =
      model::build_network(model::model_from_config(config.model), model::NetworkOptions{});
  data::TensorFile weights;
  weights.metadata = all.metadata;
  weights.metadata["format"] = "pt";
  for (const model::Parameter& parameter : network.parameters) {
    const std::string group =
        parameter.trainable ? train::kParametersGroup : train::kStatisticsGroup;
    const auto found = all.tensors.find(group + parameter.name);
    if (found == all.tensors.end())
      throw DataError(from.string() + ": it has no tensor '" + group + parameter.name + "'");
    const data::HostTensor& tensor = found->second;
    weights.tensors[parameter.name] = {
        tensor.dtype, parameter.file_dims,
        train::to_file_order(parameter, tensor.bytes, graph::dtype_bytes(tensor.dtype))};
  }
  data::write_safetensors(output, weights);
  say("{}: {} tensors of {}\n", output, weights.tensors.size(), from.string());
}

void checkpoint_reshard(const std::string& path, const std::string& output) {
  const fs::path from = checkpoint_at(path);
  Manifest manifest = train::read_manifest(from);
  std::error_code error;
  const fs::path folder = output;
  if (fs::exists(folder, error))
    throw DataError(output + " exists already; name a folder that does not");
  if (!fs::create_directories(folder, error))
    throw DataError("cannot make the folder " + output + ": " + error.message());
  data::write_safetensors((folder / train::rank_file(0)).string(),
                          train::join_checkpoint(from, manifest));
  system::write_file((folder / train::decisions_file(0)).string(), "{}");
  fs::copy_file(from / train::kSavedConfiguration, folder / train::kSavedConfiguration);
  manifest.state.mesh = {};
  manifest.state.speeds.clear();
  manifest.state.stages.clear();
  manifest.files.clear();
  for (const std::string& name :
       {train::rank_file(0), train::decisions_file(0), std::string(train::kSavedConfiguration)})
    manifest.files.push_back(train::describe_file(folder, name));
  train::write_manifest(folder, manifest);
  say("{}: {:.1f} MiB in one file of all tensors\n", output, mebibytes(manifest));
}

}  // namespace runtime::cli
