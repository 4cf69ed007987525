// sweep.jsonl: what has become of each trial.
#ifndef TOOLS_SWEEP_RECORDS_H_
#define TOOLS_SWEEP_RECORDS_H_

#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/child.h"
#include "tools/trials/settings.h"

namespace tools::sweep {

// One line: a trial that has come to the end of a rung, or has failed.
struct Record {
  int64_t trial = 0;
  trials::Settings settings;
  std::string run;  // folder of the run, relative to that of sweep.jsonl
  int64_t rung = 0;
  std::string status;  // "done" or "failed"
  std::string monitor;
  std::optional<double> value;  // of the monitor; "failed": none
  double seconds = 0;           // of the attempt that ended it
  std::string error;            // "failed": the message

  bool done() const { return status == "done"; }
  trials::Json to_json() const;
};

// The file, to which lines are appended. One thread of one process may use it.
class Records {
 public:
  // Reads what is there. What a killed sweep has left of a line is cut off. Throws DataError if the
  // file cannot be read or written, or has a line that is no record.
  explicit Records(const std::string& path);

  // Appends a line with one call of the system and puts it on the disk before it returns. Throws
  // DataError if that fails.
  void add(const Record& record);

  // Removes all records. Throws DataError if that fails.
  void clear();

  // The records in the order of the file. If a trial has several of one rung, the last one counts.
  const std::vector<Record>& all() const { return records_; }
  // The record that counts; nullptr: there is none.
  const Record* find(int64_t trial, int64_t rung) const;
  // Whether any trial has come to the end of a rung.
  bool any_done() const;

 private:
  std::string path_;
  runtime::launch::FileDescriptor file_;
  std::vector<Record> records_;
};

}  // namespace tools::sweep

#endif  // TOOLS_SWEEP_RECORDS_H_
