// Cuts a child's output into lines, and keeps the end of its errors.
#include "tools/trials/lines.h"

#include <unistd.h>

#include <cerrno>

namespace tools::trials {

namespace {

// More than any message of the program; what comes before is not kept.
constexpr size_t kTail = size_t{64} << 10;

std::string trimmed(const std::string& text) {
  const size_t end = text.find_last_not_of(" \n\r");
  return end == std::string::npos ? "" : text.substr(0, end + 1);
}

}  // namespace

std::string read_available(runtime::launch::FileDescriptor& pipe) {
  std::string text;
  char buffer[4096];
  while (pipe.get() >= 0) {
    const ssize_t bytes = read(pipe.get(), buffer, sizeof(buffer));
    if (bytes > 0) {
      text.append(buffer, static_cast<size_t>(bytes));
    } else if (bytes < 0 && errno == EAGAIN) {
      break;
    } else if (bytes == 0 || errno != EINTR) {
      pipe.close();
    }
  }
  return text;
}

void Lines::add(const std::string& text, const std::function<void(const std::string&)>& line) {
  rest_ += text;
  size_t begin = 0;
  for (size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1)
    line(rest_.substr(begin, end - begin));
  rest_.erase(0, begin);
}

void ErrorText::add(const std::string& text) {
  tail_ += text;
  if (tail_.size() > kTail) tail_.erase(0, tail_.size() - kTail);
}

std::string ErrorText::message() const {
  static constexpr std::string_view kError = "error: ";
  const std::string text = trimmed(tail_);
  for (size_t at = text.rfind(kError); at != std::string::npos && at != 0;
       at = text.rfind(kError, at - 1)) {
    if (text[at - 1] == '\n') return text.substr(at + kError.size());
  }
  if (text.starts_with(kError)) return text.substr(kError.size());
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace tools::trials
