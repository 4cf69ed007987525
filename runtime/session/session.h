// Each rank opens a session first: its device, data, programs and trainer.
#ifndef RUNTIME_SESSION_SESSION_H_
#define RUNTIME_SESSION_SESSION_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/analysis/search.h"
#include "runtime/config/config.h"
#include "runtime/data/open.h"
#include "runtime/launch/communicators.h"
#include "runtime/launch/job.h"
#include "runtime/train/checkpoint/checkpoints.h"
#include "runtime/train/open.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/trainer.h"

namespace runtime::session {

// The data sets of a process, which are read once for all of its ranks. Thread-safe.
class Datasets {
 public:
  explicit Datasets(train::DataUse use = {}) : use_(std::move(use)) {}
  // The first call opens them with this configuration and the plugins of the rank. Processes that
  // are ranks of one machine share what they read.
  data::DatasetPair get(const launch::Rank& rank, const config::Config& config);
  // Whether they are for saved weights, which are not trained.
  bool of_weights() const { return !use_.weights.empty(); }

 private:
  train::DataUse use_;
  std::once_flag once_;
  data::DatasetPair pair_;
};

// The opened objects of one rank.
struct Session {
  const launch::Rank& rank;
  config::Config config;  // resolved for the world size
  std::string choice;     // which device "auto" has chosen; "" if the device was named
  std::shared_ptr<plugins::host::Device> device;
  std::shared_ptr<plugins::host::Device> fallback;  // of device.host_fallback; may be null
  data::DatasetPair data;
  std::shared_ptr<train::StepPrograms> programs;
  std::unique_ptr<train::Trainer> trainer;

  // The checkpoint that the trainer was restored from.
  std::optional<train::Resumed> resumed;
  std::vector<std::string> resume_notes;  // lines about it for the log
  bool trains = true;                     // false: the command only evaluates or predicts

  // Opens everything. The ranks compare their configurations and data, and all of them throw if
  // these differ. `find_checkpoint` is called by rank 0 and returns the folder of the checkpoint to
  // go on from, empty for none; null: none.
  Session(const launch::Rank& rank, Datasets& datasets,
          const std::function<std::string()>& find_checkpoint = nullptr);

  // Returns the input of the job's plans: the data's shape, the device and the options.
  analysis::Planner planner() const;

 private:
  void open_trainer();
};

// Makes the input of `plan` and of the search for a mesh. `device` is that of the ranks, or one
// like it, `fallback` is that of device.host_fallback (may be null), and `ranks` says how the ranks
// are connected.
analysis::Planner make_planner(const config::Config& config, const data::DatasetPair& data,
                               std::shared_ptr<plugins::host::Device> device,
                               std::shared_ptr<plugins::host::Device> fallback,
                               const launch::PlannedRanks& ranks);

// The number of trainable parameters of the whole model, frozen ones included.
int64_t count_trainable(const std::vector<model::Parameter>& parameters);

// Prints on the standard error output what the programs made so far compute otherwise than asked
// for: operations of another device, composed operations. For commands without a log.
void print_notes(const train::StepPrograms& programs);
// Prints on the standard error output what the opened data set says about its files.
void print_notes(const data::DatasetPair& data);

// Prints a note for each table of a plugin that is not installed (check_plugin_tables).
void print_unused_tables(const config::Config& config, const plugins::host::Registry& registry);

// Says on standard error every few seconds how far parallelism.search is, if it takes so long.
analysis::SearchProgress search_progress();

// With parallelism.search: chooses the mesh of a job that has joined. Returns the choice in the
// process of rank 0, else nothing.
std::optional<analysis::Candidate> agree_on_mesh(launch::Job& job, Datasets& datasets);

// The last step of a job: opens a session on each rank, runs the body in it, and returns the exit
// code. `find_checkpoint` is that of Session. If device memory is exhausted, the error says what
// would fit.
int on_each_rank(launch::Job& job, Datasets& datasets,
                 const std::function<std::string()>& find_checkpoint,
                 const std::function<void(Session&)>& body);

// All steps of a job that makes no files. `arguments` are those of this program, for ranks that are
// processes; `use` is what the data are opened for.
int run_sessions(const config::Config& config, plugins::host::HostServices services,
                 const std::vector<std::string>& arguments,
                 const std::function<void(Session&)>& body, const train::DataUse& use = {});

}  // namespace runtime::session

#endif  // RUNTIME_SESSION_SESSION_H_
