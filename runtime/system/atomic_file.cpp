// Writes a temporary file past the page cache, syncs it, and renames it over the target.
#include "runtime/system/atomic_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "runtime/error.h"

namespace runtime::system {
namespace {

namespace fs = std::filesystem;

// The same bound as the kernel's for the symbolic links of one path.
constexpr int kMaxLinks = 40;
// A new name is drawn while the name is taken, which 64 random bits make unlikely even once.
constexpr int kAttempts = 100;
// Bytes of the target's name in the temporary name. A file's name may have 255 bytes; the temporary
// name adds two dots, 16 digits and ".tmp".
constexpr std::size_t kMaxStem = 200;
// The alignment that every file system accepts, and the bytes of one write past the page cache.
constexpr std::size_t kPage = 4096, kStage = std::size_t{4} << 20;

std::string remedy_for(int error) {
  switch (error) {
    case ENOENT:
      return "; create the folder first";
    case ENOSPC:
    case EDQUOT:
      return "; make room on the disk (df)";
    case EFBIG:
      return "; raise the limit for the size of files (ulimit -f), or write to another file system";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; choose a folder that can be written";
    case ELOOP:
      return "; the symbolic links lead in a circle, name the file itself";
    case EPIPE:
      return "; whatever was reading it has ended";
    default:
      return "";
  }
}

[[noreturn]] void cannot_write(const std::string& path, const std::string& doing, int error) {
  throw DataError("cannot write " + path + ": " + doing + ": " +
                  std::generic_category().message(error) + remedy_for(error));
}

// Does what fsync() does, and again if a signal has interrupted it.
int sync(int fd) {
  int result = 0;
  do {
    result = ::fsync(fd);
  } while (result != 0 && errno == EINTR);
  return result;
}

std::string random_digits() {
  uint64_t bits = 0;
  while (::getrandom(&bits, sizeof bits, 0) < 0 && errno == EINTR) {
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

// Returns what the symbolic links of `path` lead to, which need not exist, or nothing for a circle
// of links. A link below /proc ends the search, because it stands for an open file of a process,
// which may have no path.
std::optional<fs::path> follow_links(fs::path path) {
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code error;
    if (path.native().starts_with("/proc/") || !fs::is_symlink(path, error)) return path;
    const fs::path next = fs::read_symlink(path, error);
    if (error) return path;
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return std::nullopt;
}

}  // namespace

AtomicFile::AtomicFile(std::string path, Size size) : path_(std::move(path)) {
  const std::optional<fs::path> target = follow_links(path_);
  if (!target) fail("following symbolic links", ELOOP);
  target_ = target->string();
  folder_ = target->has_parent_path() ? target->parent_path().string() : ".";
  struct stat info = {};
  const bool exists = ::stat(target_.c_str(), &info) == 0;
  if ((exists && S_ISDIR(info.st_mode)) || !target->has_filename()) {
    throw DataError("cannot write " + path_ + ": it is a folder; expected the name of a file, as " +
                    (target->has_filename() ? *target : target->parent_path()).string() + "/file");
  }
  const bool through = exists && (!S_ISREG(info.st_mode) || target_.starts_with("/proc/"));
  through ? open_through() : open_temporary();
  if (size == Size::kLarge && !through) stage();
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

// Opens without O_CREAT, so that no regular file is created if the node has been removed in
// between.
void AtomicFile::open_through() {
  do {
    fd_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) fail("opening it", errno);
}

void AtomicFile::open_temporary() {
  const std::string name = fs::path(target_).filename().string();
  for (int i = 0; fd_ < 0 && i < kAttempts; ++i) {
    std::string candidate = folder_;
    candidate += "/." + name.substr(0, kMaxStem) + "." + random_digits() + ".tmp";
    fd_ = ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd_ >= 0) temporary_ = std::move(candidate);
    if (fd_ < 0 && errno != EEXIST && errno != EINTR) break;
  }
  if (fd_ < 0) fail("creating a temporary file in " + folder_, errno);
}

void AtomicFile::fail(const std::string& doing, int error) const {
  cannot_write(path_, doing, error);
}

// Without memory for the stage, or on a file system that cannot do it, the file is written as
// others are.
void AtomicFile::stage() {
  stage_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, kStage)));
  if (stage_ != nullptr) bypass_cache(true);
}

void AtomicFile::bypass_cache(bool bypass) {
  const int flags = ::fcntl(fd_, F_GETFL);
  bypasses_ = ::fcntl(fd_, F_SETFL, bypass ? flags | O_DIRECT : flags & ~O_DIRECT) == 0 && bypass;
}

void AtomicFile::write(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  if (stage_ == nullptr) return write_now(bytes, size);
  while (size > 0) {
    if (const std::size_t whole = size / kPage * kPage; whole > 0 && is_page(bytes)) {
      write_staged();
      write_now(bytes, whole);
      bytes += whole;
      size -= whole;
      continue;
    }
    const std::size_t n = std::min(size, kStage - staged_);
    std::memcpy(stage_.get() + staged_, bytes, n);
    staged_ += n;
    bytes += n;
    size -= n;
    if (staged_ == kStage) write_staged();
  }
}

// Whether pages of memory from there on are now pages of the file, which need no copy.
bool AtomicFile::is_page(const std::byte* bytes) const {
  return bypasses_ && staged_ % kPage == 0 && reinterpret_cast<std::uintptr_t>(bytes) % kPage == 0;
}

// Writes what is staged. At the end of the file the last page is not whole.
void AtomicFile::write_staged() {
  const std::size_t whole = staged_ / kPage * kPage;
  write_now(stage_.get(), whole);
  if (staged_ > whole) {
    if (bypasses_) bypass_cache(false);
    write_now(stage_.get() + whole, staged_ - whole);
  }
  staged_ = 0;
}

void AtomicFile::write_now(const std::byte* bytes, std::size_t size) {
  constexpr std::size_t kMaxCall = std::size_t{64} << 20;
  while (size > 0) {
    const ssize_t written = ::write(fd_, bytes, std::min(size, kMaxCall));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL && bypasses_) {
      bypass_cache(false);
      continue;
    }
    if (written < 0) fail("writing", errno);
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  write_staged();
  int result = sync(fd_);
  // Device nodes and pipes cannot be synced.
  const bool no_sync = !temporary_.empty() ? false : errno == EINVAL || errno == EROFS;
  if (result != 0 && !no_sync) fail("fsync", errno);
  // Network file systems report some errors only here. Linux frees the descriptor in any case.
  result = ::close(fd_);
  const int error = errno;
  fd_ = -1;
  if (result != 0 && error != EINTR) fail("closing", error);
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("renaming " + temporary_, errno);
  temporary_.clear();
  sync_folder(folder_, path_);
}

void sync_folder(const std::string& folder, const std::string& path) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == EACCES) return;
  if (fd < 0) cannot_write(path, "opening the folder " + folder, errno);
  const int result = sync(fd);
  const int error = errno;
  ::close(fd);
  if (result != 0 && error != EINVAL && error != ENOTSUP)
    cannot_write(path, "fsync of the folder " + folder, error);
}

void sync_file(const std::string& path) {
  // O_NONBLOCK: a pipe is not waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 && (errno == ENOENT || errno == EACCES)) return;
  if (fd < 0) cannot_write(path, "opening it to sync it", errno);
  const int result = sync(fd);
  const int error = errno;
  ::close(fd);
  if (result != 0 && error != EINVAL && error != EROFS) cannot_write(path, "fsync", error);
}

std::error_code make_folders(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> above;  // of those that are missing
  fs::path path = folder;
  if (!path.has_filename()) path = path.parent_path();
  while (!path.empty() && !fs::exists(path, error)) {
    path = path.parent_path();
    above.emplace_back(path.empty() ? "." : path.string());
  }
  fs::create_directories(folder, error);
  if (error) return error;
  for (const fs::path& parent : above) sync_folder(parent.string(), folder);
  return {};
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace runtime::system
