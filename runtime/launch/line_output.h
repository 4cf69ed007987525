// Lines of several ranks on one output of the launcher, never mixed within a line.
#ifndef RUNTIME_LAUNCH_LINE_OUTPUT_H_
#define RUNTIME_LAUNCH_LINE_OUTPUT_H_

#include <string>
#include <string_view>

namespace runtime::launch {

// What waits to be written to a file descriptor that is not ours. A reader that is slow must not
// stop the launcher, so bytes are written only when poll() says that some can be.
class Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}
  int fd() const { return fd_; }
  void add(std::string_view text);
  bool waiting() const { return !waiting_.empty(); }
  bool full() const;                    // read no more from ranks now
  int error() const { return error_; }  // errno: it takes no more, and what comes is dropped
  void write_some();                    // once poll() says that the descriptor is writable

 private:
  int fd_;
  std::string waiting_;
  int error_ = 0;
};

// Cuts one stream of bytes into lines. With a prefix, a line longer than kLongestLine becomes
// several; without one it stays as it is, and another rank's line may come between its parts.
class LineCutter {
 public:
  LineCutter(std::string prefix, Sink& sink) : prefix_(std::move(prefix)), sink_(sink) {}
  static constexpr size_t kLongestLine = 64 * 1024;
  const Sink& sink() const { return sink_; }
  void add(std::string_view bytes);
  void finish();  // completes the last line

 private:
  void write(std::string_view line, bool complete);
  std::string prefix_, partial_;
  Sink& sink_;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_LINE_OUTPUT_H_
