// Writes a small job, starts its ranks, and reads how it ended.
#include "tests/end_to_end/faults/job.h"

#include <signal.h>

#include <fstream>
#include <iterator>
#include <thread>

namespace runtime::faults {

namespace {

namespace fs = std::filesystem;

constexpr const char* kJob = R"(
[job]
dump_folder = "run"
overwrite = true
[model]
input = [6]
layers = [ { type = "linear", features = 5, activation = "relu" }, { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 60
classes = 3
validation_split = 0.2
[training]
global_batch_size = 8
[device]
backend = "reference"
[comm]
timeout_s = 2
init_timeout_s = 5
)";

// Returns "" for a process that is gone or has not called exec yet.
std::string environment_of(const fs::path& process) {
  std::ifstream file(process / "environ", std::ios::binary);
  return std::string(1, '\0') + std::string(std::istreambuf_iterator<char>(file), {});
}

bool holds(const std::string& environment, const std::string& variable) {
  return environment.find('\0' + variable + '\0') != std::string::npos;
}

}  // namespace

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool has_plugin(const std::string& backend) {
  return fs::exists(fs::path(PLUGIN_FOLDER) / ("libcollectives_" + backend + ".so"));
}

JobTest::JobTest() : job_(folder_.write("job.toml", kJob)) { fs::create_directory(path("tmp")); }

void JobTest::TearDown() {
  for (const pid_t process : processes()) {
    ADD_FAILURE() << "process " << process << " is left over";
    kill(process, SIGKILL);
  }
  for (const auto& entry : fs::directory_iterator(path("tmp")))
    EXPECT_FALSE(entry.path().filename().string().starts_with("runtime-"))
        << entry.path() << " is left over";
}

Process JobTest::train(const Words& arguments, const Words& settings, Variables variables,
                       const Before& before) {
  Words all = {"train", job_};
  all.insert(all.end(), arguments.begin(), arguments.end());
  for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
  variables.emplace("TMPDIR", path("tmp").string());
  return std::make_unique<RuntimeProcess>(folder_.path(), all, variables, before);
}

Process JobTest::ranks(const std::string& backend, int count, Words settings,
                       const Before& before) {
  if (backend.empty()) return train({}, settings, {}, before);
  settings.push_back("comm.backend=" + backend);
  return train({"--nproc", std::to_string(count)}, settings, {}, before);
}

Process JobTest::rank(int rank, int world_size, const Words& settings, const Words& arguments) {
  Words all = {"comm.backend=gloo", "comm.rendezvous=file",
               "comm.rendezvous_address=" + path("meeting").string()};
  all.insert(all.end(), settings.begin(), settings.end());
  return train(
      arguments, all,
      {{"RUNTIME_RANK", std::to_string(rank)}, {"RUNTIME_WORLD_SIZE", std::to_string(world_size)}});
}

std::vector<pid_t> JobTest::processes() const {
  std::vector<pid_t> list;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const auto process = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (process > 0 && holds(environment_of(entry.path()), "HOME=" + folder_.path().string()))
      list.push_back(process);
  }
  return list;
}

pid_t JobTest::pid_of(int rank, std::chrono::milliseconds limit) const {
  const std::string number = std::to_string(rank);
  const auto deadline = Clock::now() + limit;
  do {
    for (const pid_t process : processes()) {
      const std::string environment = environment_of("/proc/" + std::to_string(process));
      if (holds(environment, "RUNTIME_RANK=" + number) ||
          holds(environment, "OMPI_COMM_WORLD_RANK=" + number))
        return process;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (Clock::now() < deadline);
  return 0;
}

void JobTest::signal_rank(int rank, int signal) const {
  const pid_t process = pid_of(rank);
  if (process == 0)
    ADD_FAILURE() << "there is no rank " << rank << " to which signal " << signal << " could go";
  else
    kill(process, signal);
}

std::string JobTest::run_file(const std::string& name) const {
  return test::read_text(path("run") / name);
}

}  // namespace runtime::faults
