// Appends records to sweep.jsonl, and cuts a torn last line off.
#include "tools/sweep/records.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/error.h"
#include "runtime/system/atomic_file.h"

namespace tools::sweep {

namespace {

namespace fs = std::filesystem;
using trials::Json;

[[noreturn]] void cannot_write(const std::string& path) {
  throw runtime::DataError(path + ": cannot be written: " + std::strerror(errno) +
                           "; make room (df), or set folder to one that can be written");
}

Record record_of(const Json& j) {
  Record r;
  r.trial = j.at("trial");
  for (const auto& [key, value] : j.at("settings").items()) r.settings.emplace_back(key, value);
  r.run = j.at("run");
  r.rung = j.at("rung");
  r.status = j.at("status");
  r.monitor = j.at("monitor");
  if (!j.at("value").is_null()) r.value = j["value"].get<double>();
  r.seconds = j.at("seconds");
  r.error = j.value("error", "");
  return r;
}

// The whole lines of the file.
std::string read_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  const std::string all = text.str();
  return all.substr(0, all.rfind('\n') + 1);  // npos + 1 is 0
}

}  // namespace

Json Record::to_json() const {
  Json j = {{"trial", trial}, {"settings", Json::object()}};
  for (const auto& [key, setting] : settings) j["settings"][key] = setting;
  j["run"] = run;
  j["rung"] = rung;
  j["status"] = status;
  j["monitor"] = monitor;
  j["value"] = value ? Json(*value) : Json(nullptr);
  j["seconds"] = seconds;
  if (!error.empty()) j["error"] = error;
  return j;
}

Records::Records(const std::string& path)
    : path_(path), file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (file_.get() < 0) cannot_write(path_);
  const std::string text = read_lines(path);
  if (::ftruncate(file_.get(), static_cast<off_t>(text.size())) != 0) cannot_write(path_);
  std::istringstream lines(text);
  int number = 1;
  for (std::string line; std::getline(lines, line); ++number) {
    try {
      records_.push_back(record_of(Json::parse(line)));
    } catch (const Json::exception& error) {
      throw runtime::DataError(path + ":" + std::to_string(number) + ": is no record of a trial (" +
                               error.what() + "); remove this line, and the trial is run again");
    }
  }
  runtime::system::sync_folder(fs::path(path).parent_path().string(), path);
}

void Records::add(const Record& record) {
  const std::string line =
      record.to_json().dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const ssize_t written = ::write(file_.get(), line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size()) || ::fsync(file_.get()) != 0)
    cannot_write(path_);
  records_.push_back(record);
}

void Records::clear() {
  if (::ftruncate(file_.get(), 0) != 0 || ::fsync(file_.get()) != 0) cannot_write(path_);
  records_.clear();
}

bool Records::any_done() const {
  return std::any_of(records_.begin(), records_.end(), [](const Record& r) { return r.done(); });
}

const Record* Records::find(int64_t trial, int64_t rung) const {
  const Record* found = nullptr;
  for (const Record& record : records_)
    if (record.trial == trial && record.rung == rung) found = &record;
  return found;
}

}  // namespace tools::sweep
