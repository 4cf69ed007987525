// A rank's configuration -> device, data and trainer: what every command that computes opens first.
#ifndef RUNTIME_CLI_SESSION_H_
#define RUNTIME_CLI_SESSION_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/cli/commands.h"
#include "runtime/config/config.h"
#include "runtime/data/open.h"
#include "runtime/launch/run_ranks.h"
#include "runtime/train/job_plan.h"
#include "runtime/train/trainer.h"

namespace runtime::cli {

// The data sets of a process, read once for all of its ranks. Thread-safe.
class Datasets {
 public:
  data::DatasetPair get(const config::Config& config);

 private:
  std::once_flag once_;
  data::DatasetPair pair_;
};

struct Session {
  const launch::Rank& rank;
  config::Config config;  // resolved for the number of ranks
  std::string choice;     // which device "auto" took, "" if it was named
  std::shared_ptr<plugins::host::Device> device;
  data::DatasetPair data;
  std::unique_ptr<train::Trainer> trainer;

  // Ranks compare what they were started with.
  Session(const launch::Rank& rank, Datasets& datasets);

  train::Planner planner() const;
};

// What `plan` and the search for a mesh are made from. `device` is that of the ranks, or like it.
train::Planner make_planner(const config::Config& config, const data::DatasetPair& data,
                            std::shared_ptr<plugins::host::Device> device,
                            const std::string& backend);

// Opens a session on each rank of the job and runs the body in it; sets the exit code of processes
// that were started.
// With parallelism.search the ranks become the best mesh first, which `chosen` is told, in the
// process of rank 0, before it makes a folder for the run.
void run_sessions(const ConfigArguments& arguments, Outcome& outcome,
                  const std::function<void(Session&)>& body);
void run_sessions(launch::RunRanks run, Outcome& outcome, const std::function<void(Session&)>& body,
                  const std::function<void(const train::Candidate&)>& chosen = nullptr);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_SESSION_H_
