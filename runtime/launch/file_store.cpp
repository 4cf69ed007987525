// Encodes keys as file names, writes values by renaming, and rings for those that wait.
#include "runtime/launch/file_store.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "plugins/host/descriptor.h"
#include "runtime/launch/bells.h"
#include "runtime/launch/nonce.h"

namespace runtime::launch {
namespace {

namespace fs = std::filesystem;

// All files of a store begin with this; nothing else in the folder is touched.
constexpr const char* kStorePrefix = "rt-store.";
// File systems allow names of 255 bytes.
constexpr std::size_t kLongestName = 255;
// No rendezvous lasts this long, and the clocks of hosts differ by less.
constexpr auto kOld = std::chrono::hours(24);

// Keeps letters, digits and '-'; other bytes become "_2f".
std::string encoded(const std::string& key) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char c : key) {
    if (std::isalnum(c) != 0 || c == '-') {
      text += static_cast<char>(c);
    } else {
      text += {'_', kDigits[c >> 4], kDigits[c & 15]};
    }
  }
  return text;
}

// Opens the folder, because NFS remembers that a file did not exist until its folder is opened
// again.
void refresh(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) ::close(fd);
}

// Opens a named pipe, for writing only if a process of this machine listens; holds nothing if that
// fails or the path is no pipe.
plugins::host::Descriptor open_pipe(const fs::path& path, int access) {
  plugins::host::Descriptor pipe(
      ::open(path.c_str(), access | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  struct stat information = {};
  if (pipe && (::fstat(pipe.get(), &information) != 0 || !S_ISFIFO(information.st_mode)))
    pipe.close();
  return pipe;
}

// Whether no other machine writes into the folder, as far as its file system says.
bool is_of_this_machine(const fs::path& folder) {
  constexpr long kZfs = 0x2fc12fc1;  // not in linux/magic.h
  static constexpr long kLocal[] = {
      TMPFS_MAGIC,      EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,       BTRFS_SUPER_MAGIC,
      F2FS_SUPER_MAGIC, RAMFS_MAGIC,      OVERLAYFS_SUPER_MAGIC, kZfs};
  struct statfs information = {};
  return ::statfs(folder.c_str(), &information) == 0 &&
         std::ranges::find(kLocal, static_cast<long>(information.f_type)) != std::end(kLocal);
}

}  // namespace

FileStore::FileStore(const fs::path& folder)
    : folder_(folder), temporary_(kStorePrefix + std::string(".") + make_nonce() + ".") {
  std::error_code error;
  if (folder_.has_parent_path()) fs::create_directories(folder_.parent_path(), error);
  const bool made = ::mkdir(folder_.c_str(), 0700) == 0;
  const int reason = errno;
  if (!made && !fs::is_directory(folder_, error)) {
    fail("making it", reason, "give comm.rendezvous_address a folder that can be written");
  }
  remove_old_files();
}

void FileStore::fail(const std::string& doing, int error, const std::string& remedy) const {
  throw CommunicationError("rendezvous " + description() + ": " + doing + ": " +
                           std::generic_category().message(error) + "; " + remedy);
}

// Ranks do this at the same time, so it is no error if a file is gone already.
void FileStore::remove_old_files() const {
  std::error_code ignored;
  for (fs::directory_iterator entry(folder_, ignored), end; entry != end;
       entry.increment(ignored)) {
    if (!entry->path().filename().string().starts_with(kStorePrefix)) continue;
    const auto written = entry->last_write_time(ignored);
    if (!ignored && fs::file_time_type::clock::now() - written > kOld &&
        !open_pipe(entry->path(), O_WRONLY)) {
      fs::remove(entry->path(), ignored);
    }
    if (ignored) ignored.clear();
  }
}

fs::path FileStore::path_of(const std::string& key) const {
  const std::string name = kStorePrefix + encoded(key);
  if (name.size() > kLongestName) {
    fail("key '" + key + "'", ENAMETOOLONG, "shorten the names of the run or of the communicator");
  }
  return folder_ / name;
}

void FileStore::set(const std::string& key, const std::string& value) {
  const fs::path path = path_of(key), temporary = folder_ / (temporary_ + std::to_string(count_++));
  const char* const remedy = "see that the folder is still there, and the disk not full";
  errno = 0;
  std::ofstream file(temporary, std::ios::binary);
  file << value;
  file.close();
  if (!file) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail("writing " + temporary.string(), error, remedy);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail("renaming to " + path.string(), error, remedy);
  }
  ring(key);
}

// Where nobody listens, there is no pipe, or it cannot be opened.
void FileStore::ring(const std::string& key) const {
  const plugins::host::Descriptor pipe = open_pipe(pipe_of(key), O_WRONLY);
  if (pipe) static_cast<void>(!::write(pipe.get(), "", 1));
}

// The pipe is also opened for writing, so that it does not end while this bell waits.
std::unique_ptr<watch::Bell> FileStore::bell(const std::string& key) {
  const fs::path path = pipe_of(key);
  if (!is_of_this_machine(folder_) || (::mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST))
    return asking_bell(*this, key);
  plugins::host::Descriptor pipe = open_pipe(path, O_RDWR);
  return pipe ? event_bell(*this, key, std::move(pipe)) : asking_bell(*this, key);
}

std::optional<std::string> FileStore::try_get(const std::string& key) {
  const fs::path path = path_of(key);
  refresh(folder_);
  struct stat information = {};
  if (::stat(path.c_str(), &information) != 0) {
    // ESTALE means that another host has just replaced the file.
    if (errno == ENOENT && ::access(folder_.c_str(), F_OK) == 0) return std::nullopt;
    if (errno == ESTALE) return std::nullopt;
    fail("reading " + path.string(), errno, "see that the folder is still there and can be read");
  }
  const char* const remedy = "no rank has written this: remove it, or choose another folder";
  if (!S_ISREG(information.st_mode)) fail(path.string() + " is no file", EINVAL, remedy);
  if (static_cast<std::size_t>(information.st_size) > kLargestValue) {
    fail(path.string() + " has " + std::to_string(information.st_size) + " bytes", EFBIG, remedy);
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string value(std::istreambuf_iterator<char>(file), {});
  if (!file) fail("reading " + path.string(), errno, "see that the file can be read");
  return value;
}

}  // namespace runtime::launch
