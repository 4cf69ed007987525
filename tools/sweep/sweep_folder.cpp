// Locks the folder of a sweep, keeps its plan, and removes what an earlier attempt has left.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "runtime/error.h"
#include "runtime/system/atomic_file.h"
#include "tools/sweep/run_sweep.h"

namespace tools::sweep {

namespace {

namespace fs = std::filesystem;
using trials::Json;

constexpr std::chrono::seconds kWait{60};

Json plan_of(const std::string& text, const std::vector<Trial>& trials) {
  Json plan = {{"sweep", text}, {"trials", Json::array()}};
  for (const Trial& trial : trials) {
    Json settings = Json::object();
    for (const auto& [key, value] : trial.settings) settings[key] = value;
    plan["trials"].push_back(std::move(settings));
  }
  return plan;
}

std::vector<Trial> trials_of(const Json& plan) {
  std::vector<Trial> list;
  for (const Json& settings : plan.at("trials")) {
    Trial trial;
    for (const auto& [key, value] : settings.items()) trial.settings.emplace_back(key, value);
    list.push_back(std::move(trial));
  }
  return list;
}

Json read_plan(const fs::path& file) {
  std::ifstream in(file);
  Json plan = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (plan.is_object() && plan.contains("sweep") && plan.contains("trials")) return plan;
  throw runtime::DataError(file.string() + ": is no plan of a sweep; begin anew in another folder");
}

}  // namespace

std::string SweepFolder::run_of(int64_t trial) { return fmt::format("runs/{:03}", trial); }

SweepFolder::SweepFolder(const std::string& folder, const std::string& text, bool resume,
                         std::vector<Trial>& trials)
    : path_(folder) {
  std::error_code error;
  fs::create_directories(fs::path(folder) / "runs", error);
  if (error) {
    throw runtime::DataError(folder + ": cannot be made: " + error.message() +
                             "; set folder to one that can be written");
  }
  lock(resume);
  const fs::path file = fs::path(folder) / "plan.json";
  const bool is_there = fs::exists(file);
  if (is_there && !resume) {
    throw runtime::ConfigurationError(
        folder +
        " holds a sweep; go on with it (--resume), which also runs again what has failed, or set "
        "folder to another one");
  }
  records_.emplace((fs::path(folder) / "sweep.jsonl").string());
  if (is_there) {
    const Json plan = read_plan(file);
    if (plan["sweep"] == text) {
      trials = trials_of(plan);
      return;
    }
    if (records_->any_done() || records_->all().empty()) {
      throw runtime::ConfigurationError(
          file.string() +
          ": the sweep in this folder was begun with another file; set folder to "
          "another one, or undo the changes (the text is in plan.json)");
    }
    begin_anew();
  }
  runtime::system::write_file(file.string(), plan_of(text, trials).dump(1) + "\n");
}

// Failed runs of other settings are of no use to the next ones.
void SweepFolder::begin_anew() {
  std::cerr << "note: no trial of the sweep in " << path_
            << " has a result, so that it begins anew with the changed file\n";
  for (const auto& entry : fs::directory_iterator(fs::path(path_) / "runs"))
    fs::remove_all(entry.path());
  records_->clear();
}

void SweepFolder::lock(bool resume) {
  const std::string file = (fs::path(path_) / ".lock").string();
  lock_ = runtime::launch::FileDescriptor(::open(file.c_str(), O_RDWR | O_CREAT, 0666));
  if (lock_.get() < 0) {
    throw runtime::DataError(file + ": cannot be opened: " + std::strerror(errno) +
                             "; set folder to one that can be written");
  }
  const auto limit = std::chrono::steady_clock::now() + kWait;
  for (bool told = false; ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;) {
    if (!resume || std::chrono::steady_clock::now() > limit) {
      throw runtime::ConfigurationError(
          path_ + " is in use by a sweep, or by runs that it has left behind; wait for their end");
    }
    if (!told) std::cerr << "waiting for the runs of the last attempt to save themselves\n";
    told = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace tools::sweep
