// Runs cases in worker processes, shrinks what fails, and prints how to repeat it.
#include "tests/differential/operations/run.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <tuple>

#include "rt/sdk/operation.h"
#include "tests/differential/operations/shrink.h"

namespace differential {
namespace {

// This many of the failures that look alike in one run are shrunk; the others are only counted.
constexpr int kShrunkOfAKind = 2;

// The plugin cpu takes the instruction set, for its own kernels and for oneDNN, from the key `isa`.
// For a build of the plugin without that key the environment variable of oneDNN is set, which
// limits oneDNN only.
void select_instruction_set(const std::string& isa, DeviceChoice& choice) {
  if (isa == "native") return;
  const auto plugin = load_plugin(choice.plugin, choice.folders);
  const auto& options = plugin->options();
  if (std::any_of(options.begin(), options.end(), [](const auto& o) { return o.key == "isa"; })) {
    choice.options["isa"] = isa;
  } else {
    setenv("ONEDNN_MAX_CPU_ISA", isa == "avx2" ? "AVX2" : "SSE41", 1);
  }
}

std::string device_text(const DeviceChoice& device) {
  std::string text = device.plugin + ":" + std::to_string(device.index);
  for (const auto& [key, value] : device.options) {
    text.append(" ").append(key).append("=").append(value);
  }
  return text;
}

std::string draw_text(const RunOptions& options) {
  std::string text = std::to_string(options.cases) + " cases of";
  for (const rt_dtype dtype : options.draw.types) text += " " + rt::sdk::to_string(dtype);
  for (const std::string& name : options.draw.operations) text += " " + name;
  return text;
}

// The command that repeats the run, without --replay.
std::string command_text(const RunOptions& options) {
  std::string text = "differential_operations --device " + options.device.plugin;
  if (options.device.index > 0) text += ":" + std::to_string(options.device.index);
  for (const auto& [key, value] : options.device.options) {
    text.append(" --option ").append(key).append("=").append(value);
  }
  return options.isa == "native" ? text : text + " --isa " + options.isa;
}

std::string finding_text(const Finding& f) {
  return f.kind + (f.implementation.empty() ? "" : " (" + f.implementation + ")") + ": " + f.detail;
}

using Kind = std::tuple<std::string, std::string, std::string>;

Kind kind_of(const Recipe& recipe, const Finding& finding) {
  return {recipe.operation, finding.kind, finding.implementation};
}

const Finding* find(const Recipe& recipe, const Outcome& outcome, const Kind& kind) {
  for (const Finding& f : outcome.findings) {
    if (kind_of(recipe, f) == kind) return &f;
  }
  return nullptr;
}

// Runs the cases of one seed, one after the other.
class SeedRun {
 public:
  explicit SeedRun(const RunOptions& options) : options_(options), laboratory_(options) {}

  Chunk run(uint64_t seed) {
    Chunk chunk{device_text(options_.device), options_.isa, draw_text(options_), seed, {}, {}};
    for (uint64_t k = 0; k < options_.cases; ++k) {
      const Recipe recipe = draw_recipe(options_.draw, seed, k);
      const Outcome outcome = laboratory_.check(recipe);
      chunk.tally.add(recipe, outcome);
      std::set<Kind> seen;
      for (const Finding& finding : outcome.findings) {
        if (!seen.insert(kind_of(recipe, finding)).second) continue;
        chunk.failures.push_back(investigate(recipe, finding));
        print(seed, k, chunk.failures.back());
      }
    }
    return chunk;
  }

 private:
  // Shrinks the first failures of each kind. A shrunk recipe fails in the same way as the first
  // one.
  Failure investigate(const Recipe& recipe, const Finding& finding) {
    Failure failure{to_text(recipe), to_text(recipe), finding};
    const Kind kind = kind_of(recipe, finding);
    if (!options_.shrinks || ++shrunk_[kind] > kShrunkOfAKind) return failure;
    const Recipe shrunk = shrink(recipe, [&](const Recipe& candidate) {
      const Outcome outcome = laboratory_.check(candidate);
      const Finding* same = find(candidate, outcome, kind);
      if (same != nullptr) failure.finding = *same;
      return same != nullptr;
    });
    failure.shrunk = to_text(shrunk);
    return failure;
  }

  void print(uint64_t seed, uint64_t number, const Failure& failure) const {
    const bool was_shrunk = failure.shrunk != failure.recipe;
    std::printf("seed %llu case %llu: %s\n%s  %s --replay '%s'\n",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(number),
                finding_text(failure.finding).c_str(),
                was_shrunk ? ("  drawn: " + failure.recipe + "\n").c_str() : "",
                command_text(options_).c_str(), failure.shrunk.c_str());
    std::fflush(stdout);
  }

  const RunOptions& options_;
  Laboratory laboratory_;
  std::map<Kind, int> shrunk_;
};

std::set<uint64_t> seeds_done(const RunOptions& options) {
  std::set<uint64_t> done;
  if (options.results.empty()) return done;
  for (const Chunk& chunk : read_results(options.results)) {
    if (chunk.device == device_text(options.device) && chunk.isa == options.isa &&
        chunk.what == draw_text(options))
      done.insert(chunk.seed);
  }
  return done;
}

// Removes an incomplete last line, which a stopped run has left and which would spoil the next
// line.
void drop_cut_off_line(const std::filesystem::path& file) {
  if (file.empty() || !std::filesystem::exists(file)) return;
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t end = text.rfind('\n');
  std::filesystem::resize_file(file, end == std::string::npos ? 0 : end + 1);
}

void append(const std::filesystem::path& file, const Chunk& chunk) {
  if (file.empty()) return;
  std::ofstream out(file, std::ios::app);
  out << to_json(chunk).dump() << std::endl;
  if (!out) throw std::runtime_error("cannot append to " + file.string());
}

}  // namespace

Laboratory::Laboratory(const RunOptions& options)
    : worker_(
          [options]() -> Worker::Handler {
            DeviceChoice choice = options.device;
            select_instruction_set(options.isa, choice);
            return [checker = std::make_shared<Checker>(choice)](const std::string& question) {
              return to_json(checker->check(parse_recipe(question)))
                  .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
            };
          },
          options.limit) {}

Outcome Laboratory::check(const Recipe& recipe) {
  const Worker::Reply reply = worker_.ask(to_text(recipe));
  if (reply.death.empty()) return outcome_from_json(nlohmann::json::parse(reply.text));
  Outcome outcome;
  outcome.status = "found";
  outcome.findings.push_back({"crashed", "", "the process ended: " + reply.death});
  return outcome;
}

bool replay(const RunOptions& options, const Recipe& recipe) {
  const Outcome outcome = Laboratory(options).check(recipe);
  std::cout << to_text(recipe) << "\n"
            << outcome.status << " in " << outcome.candidates << " ways"
            << (outcome.reason.empty() ? "" : ": " + outcome.reason) << "\n";
  for (const std::string& name : outcome.implementations) std::cout << "  " << name << "\n";
  for (const Finding& f : outcome.findings) std::cout << finding_text(f) << "\n";
  return outcome.findings.empty();
}

bool run_seeds(const RunOptions& options) {
  drop_cut_off_line(options.results);
  const std::set<uint64_t> done = seeds_done(options);
  SeedRun run(options);
  std::vector<Chunk> chunks;
  for (uint64_t seed = options.first_seed; seed <= options.last_seed; ++seed) {
    if (done.contains(seed)) continue;
    chunks.push_back(run.run(seed));
    append(options.results, chunks.back());
  }
  std::printf("seeds %llu..%llu of %s, %zu done before\n%s",
              static_cast<unsigned long long>(options.first_seed),
              static_cast<unsigned long long>(options.last_seed),
              device_text(options.device).c_str(), done.size(), summary_text(chunks).c_str());
  return std::all_of(chunks.begin(), chunks.end(),
                     [](const Chunk& c) { return c.failures.empty(); });
}

}  // namespace differential
