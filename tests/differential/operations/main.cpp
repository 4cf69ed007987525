// The program differential_operations runs random operations on any device plugin and compares them
// with the reference in float64. README.md describes it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <tuple>

#include "plugins/host/registry.h"
#include "rt/sdk/error.h"
#include "tests/differential/operations/export.h"
#include "tests/differential/operations/family.h"
#include "tests/differential/operations/run.h"

namespace differential {
namespace {

constexpr int kFound = 1, kUsage = 2;

struct Arguments {
  std::string device = "cpu", isa = "native", seeds = "1..1", replay, types = "float32";
  std::vector<std::string> plugin_path, options, operations, summary;
  uint64_t cases = 100;
  std::optional<uint64_t> seed, number;
  std::string results, export_folder;
  int limit_s = 60;
  bool shrinks = true;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

DrawOptions draw_options(const Arguments& a) {
  DrawOptions options;
  options.types.clear();
  for (const std::string& name : split(a.types, ',')) options.types.push_back(parse_dtype(name));
  if (options.types.empty()) throw std::invalid_argument("--types names no type");
  for (const std::string& name : a.operations)
    options.operations.push_back(family_of(name).operation);
  return options;
}

std::pair<uint64_t, uint64_t> seed_range(const Arguments& a) {
  if (a.seed) return {*a.seed, *a.seed};
  const size_t dots = a.seeds.find("..");
  try {
    if (dots == std::string::npos) return {std::stoull(a.seeds), std::stoull(a.seeds)};
    return {std::stoull(a.seeds.substr(0, dots)), std::stoull(a.seeds.substr(dots + 2))};
  } catch (const std::exception&) {
    throw std::invalid_argument("--seeds is \"" + a.seeds + "\"; expected A..B or A");
  }
}

RunOptions run_options(const Arguments& a) {
  RunOptions options;
  const std::vector<std::string> device = split(a.device, ':');
  options.device.plugin = device.at(0);
  if (device.size() > 1) options.device.index = std::stoi(device[1]);
  for (const std::string& folder : a.plugin_path) options.device.folders.emplace_back(folder);
  options.device.folders.push_back(plugins::host::SearchPath::standard().built_in);
  for (const std::string& text : a.options) {
    const size_t sign = text.find('=');
    if (sign == std::string::npos)
      throw std::invalid_argument("--option is \"" + text + "\"; expected key=value");
    options.device.options[text.substr(0, sign)] = text.substr(sign + 1);
  }
  options.isa = a.isa;
  options.draw = draw_options(a);
  options.cases = a.cases;
  options.limit = std::chrono::seconds(a.limit_s);
  options.shrinks = a.shrinks;
  std::tie(options.first_seed, options.last_seed) = seed_range(a);
  options.results = a.results;
  return options;
}

int print_summary(const std::vector<std::string>& files) {
  std::vector<Chunk> chunks;
  for (const std::string& file : files) {
    if (!std::filesystem::exists(file)) throw std::invalid_argument(file + " does not exist");
    for (Chunk& chunk : read_results(file)) chunks.push_back(std::move(chunk));
  }
  std::cout << summary_text(chunks);
  return std::all_of(chunks.begin(), chunks.end(),
                     [](const Chunk& c) { return c.failures.empty(); })
             ? 0
             : kFound;
}

int export_all(const Arguments& a, const RunOptions& options) {
  const auto reference =
      plugins::host::Device::open(load_plugin("reference", options.device.folders), 0);
  std::filesystem::create_directories(a.export_folder);
  for (uint64_t seed = options.first_seed; seed <= options.last_seed; ++seed) {
    const auto file =
        std::filesystem::path(a.export_folder) / (std::to_string(seed) + ".safetensors");
    export_cases(*reference, options.draw, seed, options.cases, file);
  }
  return 0;
}

void declare(CLI::App& app, Arguments& a) {
  app.add_option("--device", a.device, "plugin, or plugin:index");
  app.add_option("--plugin-path", a.plugin_path, "folders of plugins, before the built-in one");
  app.add_option("--option", a.options, "key=value of [device.<plugin>]");
  app.add_option("--isa", a.isa, "instruction set of the plugin cpu")
      ->check(CLI::IsMember({"native", "avx2", "sse41"}));
  app.add_option("--types", a.types, "types that are drawn from, with commas");
  app.add_option("--operations", a.operations, "only these")->delimiter(',');
  app.add_option("--seeds", a.seeds, "A..B; those that --results has are left out");
  app.add_option("--cases", a.cases, "cases of one seed");
  app.add_option("--results", a.results, "file to which one JSON line a seed is appended");
  app.add_option("--limit", a.limit_s, "seconds that one case may take");
  app.add_flag("!--no-shrink", a.shrinks, "report failures as they were drawn");
  app.add_option("--seed", a.seed, "one seed");
  app.add_option("--case", a.number, "one case of --seed");
  app.add_option("--replay", a.replay, "a case as text");
  app.add_option("--summary", a.summary, "print the tables of results files, run nothing");
  app.add_option("--export", a.export_folder, "write the cases with the reference's results there");
}

int run(const Arguments& a) {
  if (!a.summary.empty()) return print_summary(a.summary);
  const RunOptions options = run_options(a);
  if (!a.export_folder.empty()) return export_all(a, options);
  if (!a.replay.empty()) return replay(options, parse_recipe(a.replay)) ? 0 : kFound;
  if (a.number)
    return replay(options, draw_recipe(options.draw, options.first_seed, *a.number)) ? 0 : kFound;
  return run_seeds(options) ? 0 : kFound;
}

}  // namespace
}  // namespace differential

int main(int argc, char** argv) {
  // On a busy machine, threads that spin while they wait take processor time from the threads that
  // they wait for, and cases of milliseconds take a minute. libgomp reads this variable when it is
  // loaded.
  setenv("OMP_WAIT_POLICY", "PASSIVE", /*overwrite=*/0);
  // As many threads as a case says, also where the processors are fewer.
  setenv("OMP_DYNAMIC", "false", /*overwrite=*/0);
  differential::Arguments arguments;
  CLI::App app("Random operations on a device against the reference in float64");
  differential::declare(app, arguments);
  CLI11_PARSE(app, argc, argv);
  try {
    return differential::run(arguments);
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << "\n";
    return differential::kUsage;
  }
}
