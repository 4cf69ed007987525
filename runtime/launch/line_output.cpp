// Cuts the output of ranks into lines, and writes them without blocking.
#include "runtime/launch/line_output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "runtime/error.h"
#include "runtime/system/host_name.h"

namespace runtime::launch {

namespace {
constexpr size_t kMostWaiting = 256 * 1024;

// "2026-11-30T18:01:29.123Z".
std::string time_of_now() {
  using std::chrono::milliseconds;
  const auto now = std::chrono::time_point_cast<milliseconds>(std::chrono::system_clock::now());
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text.data() + length, text.size() - length, ".%03dZ",
                static_cast<int>(now.time_since_epoch().count() % 1000));
  return text.data();
}

int open_log(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  const int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
  if (file >= 0) return file;
  throw ConfigurationError("launch.log_folder: " + path.string() +
                           " cannot be opened for writing: " + std::strerror(errno) +
                           "; give a folder that can be written");
}

}  // namespace

LineLog::LineLog(const std::string& path)
    : path_(path), host_(system::host_name()), file_(open_log(path)) {}

void LineLog::add(std::string_view line) {
  if (failed_) return;
  std::string text = time_of_now() + " " + host_ + " ";
  text += line;
  text += '\n';
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t bytes = ::write(file_.get(), left.data(), left.size());
    if (bytes >= 0) {
      left.remove_prefix(static_cast<size_t>(bytes));
    } else if (errno != EINTR) {
      failed_ = true;
      std::fprintf(stderr, "warning: %s cannot be written (%s), so that it lacks what follows\n",
                   path_.c_str(), std::strerror(errno));
      return;
    }
  }
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
  if (log_ != nullptr) log_->add(line);
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
