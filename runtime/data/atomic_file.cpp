#include "runtime/data/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "runtime/error.h"

namespace runtime::data {
namespace {

// Threads of one process may write the same file: each tries names until one is free.
constexpr int kAttempts = 1000;

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  const std::filesystem::path target(path_);
  folder_ = target.has_parent_path() ? target.parent_path().string() : ".";
  const std::string stem =
      folder_ + "/." + target.filename().string() + "." + std::to_string(::getpid()) + ".";
  for (int i = 0; fd_ < 0 && i < kAttempts; ++i) {
    temporary_ = stem + std::to_string(i) + ".tmp";
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) fail("creating " + temporary_);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const std::string& doing) const {
  const int error = errno;
  std::string remedy;
  if (error == ENOENT) remedy = "; create the folder first";
  if (error == ENOSPC || error == EDQUOT) remedy = "; make room on the disk";
  if (error == EACCES || error == EROFS) remedy = "; choose a folder that can be written";
  throw DataError("cannot write " + path_ + ": " + doing + ": " +
                  std::generic_category().message(error) + remedy);
}

void AtomicFile::write(const void* data, std::size_t size) {
  constexpr std::size_t kMaxCall = std::size_t{1} << 30;
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(fd_, bytes, std::min(size, kMaxCall));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("writing " + temporary_);
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("fsync of " + temporary_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("renaming " + temporary_);
  ::close(fd_);
  fd_ = -1;
  const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail("opening the folder " + folder_);
  const int result = ::fsync(folder);
  const int error = errno;
  ::close(folder);
  errno = error;
  // Some file systems cannot sync folders; the rename itself is done.
  if (result != 0 && error != EINVAL && error != ENOTSUP) fail("fsync of the folder " + folder_);
}

}  // namespace runtime::data
