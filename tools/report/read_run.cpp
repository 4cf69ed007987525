// Reads everything that a run's folder has, and notes what is missing.
#include "tools/report/read_run.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/error.h"
#include "tools/plot/units.h"
#include "tools/report/json_input.h"

namespace tools::report {

namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 3> kBenches = {"scaling.json", "bench.json",
                                                 "bench_scaling.json"};

bool has(const fs::path& folder, const char* name) {
  std::error_code error;
  return fs::exists(folder / name, error);
}

std::string name_of(const fs::path& folder) {
  const fs::path path = folder.lexically_normal();
  const fs::path name = path.has_filename() ? path.filename() : path.parent_path().filename();
  return name.empty() || name == "." ? folder.string() : name.string();
}

// The manifests of checkpoints, the newest (with the largest step in its name) last.
std::vector<fs::path> manifests(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder / "checkpoints", error), end; !error && it != end;
       it.increment(error)) {
    if (has(it->path(), "manifest.json")) found.push_back(it->path() / "manifest.json");
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Adds what the newest checkpoint says about device and build. Returns the steps of an epoch.
double add_checkpoint(Run& run) {
  const std::vector<fs::path> all = manifests(run.folder);
  if (all.empty()) return std::numeric_limits<double>::quiet_NaN();
  run.facts.push_back({"checkpoints", std::to_string(all.size())});
  const Json json = read_json(all.back());
  const Fields file(json, all.back().string());
  const std::optional<Fields> manifest = file.object("manifest");
  const std::optional<Fields> state = manifest ? manifest->object("state") : std::nullopt;
  if (!state) file.fail("manifest", "expected an object with an object \"state\"");
  run.facts.push_back({"newest checkpoint", "step " +
                                                to_text(state->number("step"), plot::Unit::kCount) +
                                                ", " + state->text("created")});
  run.facts.push_back({"device, threads, build", state->text("environment")});
  if (const std::optional<Fields> mesh = state->object("mesh")) {
    std::string text;
    for (const char* axis : {"data", "tensor", "pipeline"}) {
      text += (text.empty() ? "" : " x ") + std::string(axis) + " " +
              to_text(mesh->number(axis), plot::Unit::kCount);
    }
    run.facts.push_back({"mesh", text});
  }
  return state->number("steps_per_epoch");
}

void add_setting(Run& run, const char* name, const char* key) {
  const std::string value = run.settings.find(key);
  if (!value.empty() && value != "\"\"") run.facts.push_back({name, value});
}

void add_facts(Run& run) {
  run.facts.push_back({"folder", run.folder.string()});
  add_setting(run, "description", "job.description");
  add_setting(run, "device.backend", "device.backend");
  if (run.profile) run.facts.push_back({"profiled device", run.profile->ranks[0].device});
  add_setting(run, "launch.ranks", "launch.ranks");
  for (const Bench& bench : run.benches) run.facts.push_back({"measured", bench.source});
  run.facts.push_back({"final weights", has(run.folder, "weights.safetensors")
                                            ? "weights.safetensors"
                                            : "none: the run goes on, or did not reach its end"});
}

double batch_of(const Settings& settings) {
  const double each = settings.number("training.batch_size_per_rank");
  const double ranks = settings.number("launch.ranks");
  return each > 0 ? each * ranks : settings.number("training.global_batch_size");
}

void read_metrics_of(Run& run, double steps_per_epoch) {
  // A run that has diverged in its first steps, or has just begun, has an empty file.
  std::error_code error;
  if (!has(run.folder, "metrics.jsonl") ||
      (fs::file_size(run.folder / "metrics.jsonl", error) == 0 && !error)) {
    run.notes.emplace_back(
        "there is no metrics.jsonl, or it has no line (metrics.jsonl is off in the configuration, "
        "or "
        "the run has just begun, or has diverged before its first line)");
    return;
  }
  run.metrics =
      read_metrics(run.folder / "metrics.jsonl", {batch_of(run.settings), steps_per_epoch});
  run.notes.insert(run.notes.end(), run.metrics.notes.begin(), run.metrics.notes.end());
}

// The last `count` parts of a path.
std::string last_parts(const fs::path& path, size_t count) {
  const std::vector<fs::path> parts(path.begin(), path.end());
  fs::path name;
  for (size_t i = parts.size() - std::min(count, parts.size()); i < parts.size(); ++i)
    name /= parts[i];
  return name.string();
}

}  // namespace

bool is_run_folder(const fs::path& folder) {
  return has(folder, ".runtime-run") || has(folder, "metrics.jsonl") ||
         has(folder, "config.toml") || has(folder, "profile.json");
}

Run read_run(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error) || !is_run_folder(folder)) {
    throw runtime::ConfigurationError(
        folder.string() +
        (fs::exists(folder, error) ? ": has no files of a run" : ": there is no such folder") +
        "; expected a folder of runtime train with metrics.jsonl, config.toml or profile.json, or "
        "of a sweep with sweep.jsonl; runtime train prints it (\"run folder: ...\")");
  }
  Run run;
  run.folder = folder;
  run.name = name_of(folder);
  if (has(folder, "config.toml")) run.settings = read_settings(folder / "config.toml");
  const double steps_per_epoch = add_checkpoint(run);
  read_metrics_of(run, steps_per_epoch);
  if (has(folder, "profile.json")) run.profile = read_profile(folder / "profile.json");
  for (const char* name : kBenches) {
    if (has(folder, name)) run.benches.push_back(read_bench(folder / name));
  }
  add_facts(run);
  return run;
}

void make_names_differ(std::vector<Run>& runs) {
  for (size_t parts = 2; parts <= 8; ++parts) {
    std::map<std::string, int> count;
    for (const Run& run : runs) ++count[run.name];
    for (Run& run : runs) {
      std::error_code error;
      if (count[run.name] > 1)
        run.name = last_parts(fs::weakly_canonical(run.folder, error), parts);
    }
  }
}

}  // namespace tools::report
