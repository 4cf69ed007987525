// Lines of several ranks on one output of the launcher, without mixing text within a line.
#ifndef RUNTIME_LAUNCH_LINE_OUTPUT_H_
#define RUNTIME_LAUNCH_LINE_OUTPUT_H_

#include <memory>
#include <string>
#include <string_view>

#include "plugins/host/descriptor.h"

namespace runtime::launch {

// Text that waits to be written to a borrowed file descriptor. A slow reader must not stop the
// launcher, so bytes are written only when poll() reports that the descriptor takes some.
class Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}
  int fd() const { return fd_; }
  void add(std::string_view text);
  bool waiting() const { return !waiting_.empty(); }
  bool full() const;                    // whether reading from ranks should pause
  int error() const { return error_; }  // errno after a failed write; later text is dropped
  void write_some();                    // when poll() reports the descriptor as writable

 private:
  int fd_;
  std::string waiting_;
  int error_ = 0;
};

// A file to which lines of one rank are appended, each behind its time (UTC) and the name of this
// machine; a line longer than LineCutter::kLongestLine is several. The writing waits for the disk.
// If it fails, one warning says so, and the rest is dropped. One thread.
class LineLog {
 public:
  // Makes the folder and the file. Throws ConfigurationError if they cannot be made.
  explicit LineLog(const std::string& path);
  void add(std::string_view line);

 private:
  const std::string path_, host_;
  const plugins::host::Descriptor file_;
  bool failed_ = false;
};

// Divides a stream of bytes into lines. With a prefix, a line longer than kLongestLine becomes
// several lines. Without a prefix it stays one line, but lines of other ranks may appear inside it.
class LineCutter {
 public:
  LineCutter(std::string prefix, Sink& sink, std::shared_ptr<LineLog> log = nullptr)
      : prefix_(std::move(prefix)), sink_(sink), log_(std::move(log)) {}
  static constexpr size_t kLongestLine = 64 * 1024;
  const Sink& sink() const { return sink_; }
  void add(std::string_view bytes);
  void finish();  // completes the last line

 private:
  void write(std::string_view line, bool complete);
  std::string prefix_, partial_;
  Sink& sink_;
  std::shared_ptr<LineLog> log_;  // may be null
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_LINE_OUTPUT_H_
