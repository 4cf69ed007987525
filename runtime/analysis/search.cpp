// Plans the meshes of a world size, changes what does not fit, and improves the fastest.
#include "runtime/analysis/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "plugins/host/error.h"
#include "runtime/error.h"
#include "runtime/model/layer_types.h"
#include "runtime/parallel/schedule.h"
#include "runtime/row_of.h"
#include "runtime/step/ranks.h"

namespace runtime::analysis {

namespace {

// A change has to bring so much of a step to be taken.
constexpr double kWorthwhile = 0.01;
// The number of meshes whose other keys are searched.
constexpr size_t kImproved = 3;
// The most micro-batches of all stages together whose plan takes seconds and not minutes.
constexpr int64_t kMostMicroBatches = 1024;

// Returns the configuration after the checks of a configuration file, for so many ranks.
config::Config checked(const config::Config& config, int world_size) {
  return step::resolve_ranks(config::load_text(config::to_toml(config), config.name, {}, "",
                                               model::layer_types(), config::open_types_of(config)),
                             world_size);
}

config::Config with_mesh(config::Config config, const parallel::Mesh& mesh) {
  config.parallelism.search = false;
  config.parallelism.data = mesh.data;
  config.parallelism.tensor = mesh.tensor;
  config.parallelism.pipeline = mesh.pipeline;
  int& zero_ranks = config.parallelism.zero_ranks;
  if (zero_ranks > 0 && mesh.data % zero_ranks != 0) zero_ranks = 0;
  return config;
}

// Returns an error message up to the first semicolon or line break, without the line number, which
// refers to the text that checked() has generated.
std::string short_form(const std::string& message) {
  std::string text = message.substr(0, message.find_first_of(";\n"));
  if (const size_t place = text.find(".toml:"); place != std::string::npos) {
    if (const size_t end = text.find(": ", place + 6); end != std::string::npos)
      text = text.substr(end + 2);
  }
  return text;
}

Candidate make_candidate(const config::Config& config, const parallel::Mesh& mesh,
                         const Planner& planner) {
  Candidate c;
  c.mesh = mesh;
  try {
    c.config = checked(config, mesh.size());
    c.plan = planner.plan(c.config, mesh.size());
    if (!c.plan.fits()) c.reason = "does not fit the memory";
  } catch (const Error& error) {
    c.reason = short_form(error.what());
  } catch (const plugins::host::Error& error) {
    c.reason = short_form(error.what());
  }
  return c;
}

// Seconds for one sample. With training.batch_size_per_rank the batch of a step grows with the data
// axis, so that the steps of two meshes say nothing.
double seconds_of_sample(const Candidate& c) {
  const int64_t samples = std::max<int64_t>(1, c.config.training.global_batch_size);
  return c.plan.prediction.times.step() / static_cast<double>(samples);
}

// The samples of a step that a rank of the first place of the data axis has.
int64_t rows_of(const config::Config& config, const parallel::Mesh& mesh) {
  if (config.training.batch_size_per_rank > 0) return config.training.batch_size_per_rank;
  return (config.training.global_batch_size + mesh.data - 1) / mesh.data;
}

// The number of micro-batches that a pipeline cuts these samples in.
int64_t micro_batches(const config::Config& config, const parallel::Mesh& mesh) {
  const int asked = config.parallelism.microbatches;
  return asked > 0 ? asked : std::min<int64_t>(int64_t{4} * mesh.pipeline, rows_of(config, mesh));
}

// ---- what may be changed for a mesh; each returns false where it has come to its end

using Change = bool (*)(config::Config& config, const parallel::Mesh& mesh);

bool set_zero(config::Config& config, const parallel::Mesh& mesh, int stage) {
  const bool possible = stage >= 0 && stage <= 3 && mesh.data > 1;
  if (!possible) return false;
  config.parallelism.zero_stage = stage;
  if (stage == 0) config.parallelism.zero_ranks = 0;
  return true;
}
bool partition_more(config::Config& config, const parallel::Mesh& mesh) {
  return set_zero(config, mesh, config.parallelism.zero_stage + 1);
}
bool partition_less(config::Config& config, const parallel::Mesh& mesh) {
  return set_zero(config, mesh, config.parallelism.zero_stage - 1);
}

// ZeRO's state is divided among the ranks of a node, and nodes hold copies.
bool divide_inside_nodes(config::Config& config, const parallel::Mesh& mesh) {
  config::Parallelism& p = config.parallelism;
  const int inside = config.cluster.devices_per_node / mesh.tensor;
  const bool helps = p.zero_stage > 0 && p.zero_ranks != inside && mesh.pipeline == 1 &&
                     config.cluster.devices_per_node % mesh.tensor == 0;
  if (!helps || inside < 2 || inside >= mesh.data || mesh.data % inside != 0) return false;
  p.zero_ranks = inside;
  return true;
}

bool divide_over_all(config::Config& config, const parallel::Mesh&) {
  return std::exchange(config.parallelism.zero_ranks, 0) > 0;
}

bool halve_micro_batches(config::Config& config, const parallel::Mesh& mesh) {
  const int64_t rows = rows_of(config, mesh);
  if (mesh.pipeline > 1) {
    const int64_t next = 2 * micro_batches(config, mesh);
    if (next > rows || next * mesh.pipeline > kMostMicroBatches) return false;
    config.parallelism.microbatches = static_cast<int>(next);
    return true;
  }
  int& size = config.training.micro_batch_size;
  const int64_t now = size > 0 ? std::min<int64_t>(size, rows) : rows;
  if (now < 2) return false;
  size = static_cast<int>((now + 1) / 2);
  return true;
}
bool double_micro_batches(config::Config& config, const parallel::Mesh& mesh) {
  if (mesh.pipeline > 1) {
    const int64_t next = micro_batches(config, mesh) / 2;
    if (next < mesh.pipeline) return false;
    config.parallelism.microbatches = static_cast<int>(next);
    return true;
  }
  int& size = config.training.micro_batch_size;
  if (size == 0) return false;
  size = int64_t{2} * size >= rows_of(config, mesh) ? 0 : 2 * size;
  return true;
}

bool set_recompute(config::Config& config, bool blocks) {
  std::string& name = config.training.recompute;
  const bool now = row_of<bool>("training.recompute", name, {{"none", false}, {"blocks", true}});
  name = blocks ? "blocks" : "none";
  return now != blocks;
}
bool recompute(config::Config& config, const parallel::Mesh&) {
  return set_recompute(config, true);
}
bool keep(config::Config& config, const parallel::Mesh&) { return set_recompute(config, false); }

// Takes the schedule so many rows behind the present one.
template <int rows>
bool other_schedule(config::Config& config, const parallel::Mesh& mesh) {
  if (mesh.pipeline == 1) return false;
  const std::vector<parallel::ScheduleKind>& kinds = parallel::schedule_kinds();
  std::string& name = config.parallelism.pipeline_schedule;
  const auto now = static_cast<size_t>(parallel::schedule_kind(name) - kinds.data());
  name = kinds[(now + rows) % kinds.size()].name;
  return true;
}

// Those that save memory, the one that costs least first.
constexpr Change kSavers[] = {divide_over_all, partition_more, halve_micro_batches, recompute};
constexpr Change kMoves[] = {
    partition_more, partition_less, divide_inside_nodes, halve_micro_batches, double_micro_batches,
    recompute,      keep,           other_schedule<1>,   other_schedule<2>};

class MeshSearch {
 public:
  MeshSearch(const config::Config& config, int world_size, const Planner& planner,
             const SearchProgress& progress)
      : config_(config), world_size_(world_size), planner_(planner), progress_(progress) {}

  std::vector<Candidate> run() {
    const std::vector<parallel::Mesh> meshes = all_meshes();
    for (const parallel::Mesh& mesh : meshes) {
      if (progress_) progress_(list_.size(), meshes.size(), mesh);
      list_.push_back(examine(mesh));
      if (list_.back().reason.empty()) best_ = std::min(best_, seconds_of_sample(list_.back()));
    }
    sort();
    if (!planner_.sheet) return std::move(list_);
    for (size_t i = 0; i < std::min(kImproved, list_.size()); ++i) {
      if (list_[i].reason.empty()) improve(list_[i]);
    }
    sort();
    return std::move(list_);
  }

 private:
  std::vector<parallel::Mesh> all_meshes() const {
    std::vector<parallel::Mesh> meshes;
    for (int tensor = 1; tensor <= world_size_; ++tensor) {
      if (world_size_ % tensor > 0) continue;
      for (int pipeline = 1; tensor * pipeline <= world_size_; ++pipeline) {
        if (world_size_ % (tensor * pipeline) == 0)
          meshes.push_back({world_size_ / (tensor * pipeline), tensor, pipeline});
      }
    }
    // Those with few stages are planned fastest and tell what others must beat.
    if (planner_.sheet)
      std::stable_sort(meshes.begin(), meshes.end(),
                       [](const auto& a, const auto& b) { return a.pipeline < b.pipeline; });
    return meshes;
  }

  void sort() {
    const auto rank = [](const Candidate& c) {
      return std::pair(!c.reason.empty(), seconds_of_sample(c));
    };
    std::stable_sort(list_.begin(), list_.end(),
                     [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
  }

  Candidate examine(const parallel::Mesh& mesh) {
    config::Config config = with_mesh(config_, mesh);
    if (!planner_.sheet) return make_candidate(config, mesh, planner_);
    if (mesh.pipeline > 1) begin_pipeline(config, mesh);
    if (const std::string reason = not_worth(config, mesh); !reason.empty())
      return {config, mesh, {}, reason};
    Candidate c = make_candidate(config, mesh, planner_);
    if (mesh.pipeline == 1 && !c.plan.roles.empty())
      slices_[mesh.tensor] = (c.plan.roles[0].pass_seconds +
                              c.plan.prediction.times.exposed_by_axis[parallel::kTensorAxis]) /
                             static_cast<double>(c.config.training.global_batch_size);
    if (!c.reason.empty()) make_fit(c, config);
    return c;
  }

  // Sets what a pipeline allows, where the configuration says what only one stage can have.
  static void begin_pipeline(config::Config& config, const parallel::Mesh& mesh) {
    config.training.micro_batch_size = 0;
    const int64_t most = kMostMicroBatches / mesh.pipeline / mesh.pipeline * mesh.pipeline;
    if (most > 0 && micro_batches(config, mesh) > most)
      config.parallelism.microbatches = static_cast<int>(most);
  }

  // Why a mesh need not be planned; "": it has to be.
  std::string not_worth(const config::Config& config, const parallel::Mesh& mesh) const {
    if (mesh.pipeline == 1) return "";
    if (micro_batches(config, mesh) * mesh.pipeline > kMostMicroBatches)
      return "more than " + std::to_string(kMostMicroBatches) +
             " micro-batches of all stages, which take minutes to plan";
    const auto known = slices_.find(mesh.tensor);
    if (known == slices_.end()) return "";
    // All ranks together compute what one stage would, and a pipeline fills and empties: at least
    // with the most micro-batches, and two stages on each rank.
    const auto slots =
        static_cast<double>(2 * std::min(rows_of(config, mesh), kMostMicroBatches / mesh.pipeline));
    const double least = known->second * (1 + (mesh.pipeline - 1) / slots);
    return least < best_ ? "" : "computing and bubble take longer than the best";
  }

  // Changes one key after the other until the job fits. A mesh is also refused where no cut of its
  // pipeline fits.
  void make_fit(Candidate& c, config::Config config) const {
    for (const Change saver : kSavers) {
      for (config::Config more = config; saver(more, c.mesh);) {
        Candidate next = make_candidate(more, c.mesh, planner_);
        if (next.plan.roles.empty()) break;  // refused, for example by the rules of a key
        if (!c.plan.roles.empty() && next.plan.peak() >= c.plan.peak()) continue;
        config = more;
        c = std::move(next);
        if (c.plan.fits()) return;
      }
    }
  }

  // Takes single changes for as long as one of them makes training faster.
  void improve(Candidate& c) const {
    std::set<std::string> tried;
    for (bool better = true; better;) {
      better = false;
      for (const Change move : kMoves) {
        config::Config config = c.config;
        if (!move(config, c.mesh) || !tried.insert(chosen_keys(config)).second) continue;
        Candidate next = make_candidate(config, c.mesh, planner_);
        if (!next.reason.empty() ||
            seconds_of_sample(next) > (1 - kWorthwhile) * seconds_of_sample(c))
          continue;
        c = std::move(next);
        better = true;
      }
    }
  }

  const config::Config& config_;
  const int world_size_;
  const Planner& planner_;
  const SearchProgress& progress_;
  std::vector<Candidate> list_;
  // Seconds for one sample of the passes of a rank and of its waiting for the other slices, by the
  // degree of the tensor axis: the same for each number of stages.
  std::map<int, double> slices_;
  double best_ = std::numeric_limits<double>::infinity();  // seconds_of_sample() the best
};

}  // namespace

std::vector<Candidate> search(const config::Config& config, int world_size, const Planner& planner,
                              const SearchProgress& progress) {
  return MeshSearch(config, world_size, planner, progress).run();
}

const Candidate& best_of(const std::vector<Candidate>& candidates) {
  if (candidates.front().reason.empty()) return candidates.front();
  // A mesh that was planned says more than one that was not.
  const auto planned = std::find_if(candidates.begin(), candidates.end(),
                                    [](const Candidate& c) { return !c.plan.roles.empty(); });
  const Candidate& example = planned != candidates.end() ? *planned : candidates.front();
  throw ConfigurationError("parallelism.search: none of the meshes of " +
                           std::to_string(example.mesh.size()) + " ranks can train the model (" +
                           to_string(example.mesh) + ": " + example.reason +
                           "); use more ranks, a smaller batch or training.recompute = \"blocks\"");
}

std::string chosen_keys(const config::Config& config) {
  const config::Parallelism& p = config.parallelism;
  std::string text = "parallelism.data = " + std::to_string(p.data) +
                     ", tensor = " + std::to_string(p.tensor) +
                     ", pipeline = " + std::to_string(p.pipeline) +
                     ", zero_stage = " + std::to_string(p.zero_stage);
  if (p.zero_ranks > 0) text += ", zero_ranks = " + std::to_string(p.zero_ranks);
  if (p.pipeline > 1)
    text += ", pipeline_schedule = \"" + p.pipeline_schedule + "\", microbatches = " +
            (p.microbatches > 0 ? std::to_string(p.microbatches) : "\"auto\"");
  if (config.training.micro_batch_size > 0)
    text += ", training.micro_batch_size = " + std::to_string(config.training.micro_batch_size);
  return text + ", training.recompute = \"" + config.training.recompute + "\"";
}

}  // namespace runtime::analysis
