// Writes metrics.jsonl, metrics.csv and event files, and cuts them where a run goes on.
#include "runtime/session/reports/metrics_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>

#include "runtime/error.h"
#include "runtime/session/reports/tensorboard.h"
#include "runtime/session/reports/write_failure.h"
#include "runtime/system/atomic_file.h"
#include "runtime/system/host_name.h"
#include "runtime/train/formatted.h"

namespace runtime::session {

namespace {

using train::formatted;
using train::NamedValue;

namespace fs = std::filesystem;

std::string reason(int error) { return std::generic_category().message(error); }

// A file that grows by records. Not thread-safe.
class AppendedFile {
 public:
  AppendedFile(const std::string& path, std::ostream& warnings)
      : failure_(path, warnings),
        fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666)) {
    if (fd_ >= 0) return;
    throw DataError(path + ": cannot be opened for writing: " + reason(errno) +
                    "; set job.dump_folder to a folder that can be written");
  }
  ~AppendedFile() { ::close(fd_); }
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  // If the previous record was cut off, `separator` goes before this one, so that readers of lines
  // lose only that one.
  void add(std::string record, const char* separator) {
    if (cut_) record = separator + record;
    size_t done = 0;
    while (done < record.size()) {
      const ssize_t n = ::write(fd_, record.data() + done, record.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) break;
      done += static_cast<size_t>(n);
    }
    if (done < record.size()) failure_.add(reason(errno));
    if (done > 0) cut_ = done < record.size();
  }
  // Puts everything on the disk. Throws DataError if something was lost.
  void finish() {
    int result = 0;
    do {
      result = ::fsync(fd_);
    } while (result != 0 && errno == EINTR);
    if (result != 0 && errno != EINVAL && errno != EROFS) failure_.add(reason(errno));
    failure_.throw_if_any();
  }

 private:
  WriteFailure failure_;
  const int fd_;
  bool cut_ = false;
};

// Writes one record for each line of metrics.
class FileReporter : public Reporter {
 public:
  FileReporter(const std::string& path, std::ostream& warnings) : file_(path, warnings) {}
  void note(const std::string&) override {}
  void finish() override { file_.finish(); }

 protected:
  AppendedFile file_;
};

class JsonFile : public FileReporter {
 public:
  using FileReporter::FileReporter;
  void line(const Metrics& metrics) override { file_.add(to_json(metrics) + "\n", "\n"); }
};

using Fields = std::vector<std::string>;

Fields columns_with(const Fields& validation) {
  Fields columns = {"step",
                    "epoch",
                    "loss",
                    "lr",
                    "samples_per_second",
                    "validation_loss",
                    "validation_accuracy"};
  for (const std::string& name : validation) columns.push_back("validation_" + name);
  return columns;
}

// No field has a comma or a quote.
Fields fields_of(const std::string& line) {
  Fields fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  return fields;
}

std::string csv_row(const Fields& fields) {
  std::string row;
  for (size_t i = 0; i < fields.size(); ++i) row += (i > 0 ? "," : "") + fields[i];
  return row + "\n";
}

// The shortest text that reads back as the same number.
std::string text_of(const std::optional<double>& value) {
  if (!value) return "";
  return std::isfinite(*value) ? nlohmann::json(*value).dump() : formatted("%f", *value);
}

class CsvFile : public FileReporter {
 public:
  CsvFile(const std::string& path, std::ostream& warnings, Fields validation)
      : FileReporter(path, warnings), validation_(std::move(validation)) {}
  void line(const Metrics& m) override {
    Fields row = {std::to_string(m.step), std::to_string(m.epoch + 1)};
    for (const std::optional<double>& value :
         {std::optional(m.loss), std::optional(m.lr), std::optional(m.samples_per_second),
          m.validation_loss, m.validation_accuracy})
      row.push_back(text_of(value));
    for (const std::string& name : validation_) {
      const double* const value = m.validation.find(name);
      row.push_back(value == nullptr ? "" : text_of(*value));
    }
    file_.add(csv_row(row), "\n");
  }

 private:
  const Fields validation_;
};

// The rows of a table up to a step, under these columns; a field goes where its name is now.
std::string rows_until(const std::string& path, int64_t after, const Fields& columns) {
  std::string kept = csv_row(columns);
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  const Fields names = fields_of(line);
  while (std::getline(in, line)) {
    std::istringstream first(line);
    int64_t step = 0;
    if (!(first >> step) || step > after) continue;
    const Fields fields = fields_of(line);
    Fields row;
    for (const std::string& column : columns) {
      const size_t i = std::find(names.begin(), names.end(), column) - names.begin();
      row.push_back(i < fields.size() ? fields[i] : "");
    }
    kept += csv_row(row);
  }
  return kept;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class RankFile : public FileReporter {
 public:
  RankFile(const std::string& path, RankName name, std::ostream& warnings)
      : FileReporter(path, warnings), name_(std::move(name)) {}
  void line(const Metrics& metrics) override {
    file_.add(rank_json(name_, seconds_since_1970(), metrics) + "\n", "\n");
  }

 private:
  const RankName name_;
};

// The lines of a rank's file up to a step; one that was cut off is left out.
std::string lines_until(const std::string& path, int64_t after) {
  std::string kept;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const auto steps = json.is_object() ? json.find("steps") : json.end();
    if (steps != json.end() && steps->is_number() && *steps <= after) kept += line + "\n";
  }
  return kept;
}

class EventFile : public FileReporter {
 public:
  EventFile(const std::string& path, int64_t after, std::ostream& warnings)
      : FileReporter(path, warnings) {
    file_.add(tensorboard::first_record(seconds_since_1970()), "");
    if (after > 0) file_.add(tensorboard::restart_record(seconds_since_1970(), after + 1), "");
  }
  void line(const Metrics& m) override {
    std::vector<tensorboard::Scalar> scalars = {{"train/loss", m.loss},
                                                {"train/learning_rate", m.lr},
                                                {"train/samples_per_second", m.samples_per_second}};
    if (m.tokens_per_second) scalars.push_back({"train/tokens_per_second", *m.tokens_per_second});
    if (m.mfu) scalars.push_back({"train/mfu", *m.mfu});
    if (m.validation_loss) scalars.push_back({"validation/loss", *m.validation_loss});
    if (m.validation_accuracy) scalars.push_back({"validation/accuracy", *m.validation_accuracy});
    for (const NamedValue& number : m.validation.numbers)
      scalars.push_back({"validation/" + number.name, number.value});
    file_.add(tensorboard::scalar_record(seconds_since_1970(), m.step, scalars), "");
  }
};

// TensorBoard reads the files of a folder in the order of their names.
fs::path new_event_file(const fs::path& folder) {
  char time[40];
  std::snprintf(time, sizeof(time), "%.6f", seconds_since_1970());
  return folder / (std::string("events.out.tfevents.") + time + "." + system::host_name() + "." +
                   std::to_string(::getpid()));
}

}  // namespace

std::unique_ptr<Reporter> make_metrics_file(const std::string& path, std::ostream& warnings) {
  return std::make_unique<JsonFile>(path, warnings);
}

std::unique_ptr<Reporter> make_csv(const std::string& path, int64_t after, std::ostream& warnings,
                                   const std::vector<std::string>& validation) {
  system::write_file(path, rows_until(path, after, columns_with(validation)));
  return std::make_unique<CsvFile>(path, warnings, validation);
}

std::string rank_file(int rank) { return "rank" + std::to_string(rank) + ".jsonl"; }

void cut_rank_files(const fs::path& folder, int ranks, int64_t after) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    int rank = -1;
    const std::string name = entry.path().filename().string();
    if (std::sscanf(name.c_str(), "rank%d.jsonl", &rank) == 1 && rank >= ranks &&
        name == rank_file(rank))
      system::write_file(entry.path().string(), lines_until(entry.path().string(), after));
  }
}

std::unique_ptr<Reporter> make_rank_file(const std::string& path, const RankName& name,
                                         int64_t after, std::ostream& warnings) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw DataError(folder.string() + ": cannot be made: " + error.message());
  system::write_file(path, lines_until(path, after));
  return std::make_unique<RankFile>(path, name, warnings);
}

std::unique_ptr<Reporter> make_tensorboard(const std::string& folder, int64_t after,
                                           std::ostream& warnings) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw DataError(folder + ": cannot be made: " + error.message());
  return std::make_unique<EventFile>(new_event_file(folder).string(), after, warnings);
}

}  // namespace runtime::session
