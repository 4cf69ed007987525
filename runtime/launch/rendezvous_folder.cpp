// Makes, locks and removes the folder of an attempt, and those that killed launchers have left.
#include "runtime/launch/rendezvous_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "runtime/error.h"

namespace runtime::launch {

namespace {

namespace fs = std::filesystem;

constexpr const char* kScheme = "file:";  // of the address, as stores.cpp reads it
// Folders of one job begin with this. The folder that jobs share is runtime-<user id>, see
// stores.cpp.
constexpr const char* kFolderPrefix = "runtime-job-";
constexpr const char* kPattern = "runtime-job-XXXXXX";

std::string temporary_folder() {
  const char* const base = std::getenv("TMPDIR");
  return base == nullptr || *base == '\0' ? "/tmp" : base;
}

FileDescriptor open_folder(const std::string& path) {
  return FileDescriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Returns whether the path still names the open folder.
bool is_at(const FileDescriptor& folder, const std::string& path) {
  struct stat open_one, named;
  return fstat(folder.get(), &open_one) == 0 && lstat(path.c_str(), &named) == 0 &&
         open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

std::string saving_file(const std::string& folder) { return folder + "/saving"; }

// It is no error if another process removes files in the folder at the same time.
void remove(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void remove_if_left(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid())
    return;
  const FileDescriptor folder = open_folder(path);
  if (folder.get() < 0 || flock(folder.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (is_at(folder, path)) remove(path);
}

void remove_left_folders() {
  std::error_code ignored;
  for (fs::directory_iterator entry(temporary_folder(), ignored), end; entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kFolderPrefix) && name.size() == std::strlen(kPattern))
      remove_if_left(entry->path().string());
    if (ignored) return;
  }
}

}  // namespace

// Between the making of a folder and its lock, another launcher may take it for an abandoned one
// and remove it; then a new folder is made.
RendezvousFolder::RendezvousFolder() {
  remove_left_folders();
  do {
    path_ = temporary_folder() + "/" + kPattern;
    if (mkdtemp(path_.data()) == nullptr) {
      throw CommunicationError("cannot make a rendezvous folder " + path_ + ": " +
                               std::strerror(errno) + "; set TMPDIR to a folder that is writable");
    }
    lock_ = open_folder(path_);
    if (flock(lock_.get(), LOCK_EX) != 0) return;  // then no other launcher can lock it either
  } while (!is_at(lock_, path_));
}

RendezvousFolder::~RendezvousFolder() { remove(path_); }

std::string RendezvousFolder::address() const { return kScheme + path_; }

SavingLock::SavingLock(const std::string& folder) {
  if (folder.empty()) return;
  const std::string path = saving_file(folder);
  file_ = FileDescriptor(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  int locked = -1;
  while (file_.get() >= 0 && (locked = flock(file_.get(), LOCK_EX)) != 0 && errno == EINTR) {
  }
  if (locked != 0) {
    std::fprintf(stderr,
                 "warning: cannot lock %s: %s; if another rank fails now, the launcher does not "
                 "wait until rank 0 has saved\n",
                 path.c_str(), std::strerror(errno));
  }
}

bool is_saving(const std::string& folder) {
  const FileDescriptor file(open(saving_file(folder).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  return file.get() >= 0 && flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool has_saved(const std::string& folder) { return access(saving_file(folder).c_str(), F_OK) == 0; }

}  // namespace runtime::launch
