// Cuts the output of ranks into lines, and writes them without blocking.
#include "runtime/launch/line_output.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>

namespace runtime::launch {

namespace {
constexpr size_t kMostWaiting = 256 * 1024;
}

void Sink::add(std::string_view text) {
  if (error_ == 0) waiting_ += text;
}

bool Sink::full() const { return waiting_.size() >= kMostWaiting; }

// Writes at most PIPE_BUF bytes, which a pipe that poll() calls writable takes without blocking.
void Sink::write_some() {
  const ssize_t bytes = ::write(fd_, waiting_.data(), std::min<size_t>(waiting_.size(), PIPE_BUF));
  if (bytes >= 0) {
    waiting_.erase(0, static_cast<size_t>(bytes));
  } else if (errno != EINTR && errno != EAGAIN) {
    error_ = errno;
    waiting_.clear();
  }
}

void LineCutter::write(std::string_view line, bool complete) {
  sink_.add(prefix_);
  sink_.add(line);
  if (complete) sink_.add("\n");
}

void LineCutter::add(std::string_view bytes) {
  partial_ += bytes;
  size_t begin = 0;
  for (;;) {
    const size_t end = partial_.find('\n', begin), length = std::min(end, partial_.size()) - begin;
    if (length > kLongestLine) {
      write(std::string_view(partial_).substr(begin, kLongestLine), !prefix_.empty());
      begin += kLongestLine;
    } else if (end != partial_.npos) {
      write(std::string_view(partial_).substr(begin, length), true);
      begin = end + 1;
    } else {
      break;
    }
  }
  partial_.erase(0, begin);
}

void LineCutter::finish() {
  if (!partial_.empty()) write(partial_, true);
  partial_.clear();
}

}  // namespace runtime::launch
