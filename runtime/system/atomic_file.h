// Writing of a file as a whole: readers see the old content or the new one, even after a power
// failure.
#ifndef RUNTIME_SYSTEM_ATOMIC_FILE_H_
#define RUNTIME_SYSTEM_ATOMIC_FILE_H_

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace runtime::system {

// A file that is being written. The content of a regular file goes to a temporary file with an
// unpredictable name in the same folder, and commit() renames it to `path`; without commit() the
// temporary file is removed and an older file stays untouched. If `path` is a symbolic link, the
// file that it names is replaced and the link stays. A device node, a FIFO or an open file under
// /proc (/dev/stdout) is written to directly and never replaced; what was written before an error
// then stays. A folder is refused. Access bits are those of a new file under the umask. Errors are
// DataError with the path, the reason and a remedy. The class is not thread-safe.
class AtomicFile {
 public:
  // A file that is kLarge does not pass through the page cache where the file system can do that:
  // the kernel then spends an eighth of the time on it and keeps what programs will read again.
  // Whole pages of memory that become whole pages of such a file are written from where they are.
  enum class Size { kOrdinary, kLarge };
  explicit AtomicFile(std::string path, Size size = Size::kOrdinary);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Puts the content and the name on the disk before it returns (fsync of the file, rename, fsync
  // of the folder). Nothing may be written afterwards.
  void commit();

 private:
  [[noreturn]] void fail(const std::string& doing, int error) const;
  void open_through();
  void open_temporary();
  void stage();
  void bypass_cache(bool bypass);
  bool is_page(const std::byte* bytes) const;
  void write_now(const std::byte* bytes, std::size_t size);
  void write_staged();

  const std::string path_;  // as the caller gave it, for messages
  std::string target_;      // what `path_` leads to through links
  std::string folder_;      // folder of the target
  std::string temporary_;   // empty if the target is written to directly
  int fd_ = -1;
  // Writing past the page cache takes whole pages only, in memory and in the file, so bytes are
  // collected here first.
  std::unique_ptr<std::byte, void (*)(void*)> stage_{nullptr, std::free};
  std::size_t staged_ = 0;  // bytes of stage_
  bool bypasses_ = false;
};

// Puts the names of a folder's files on the disk. Some file systems cannot sync folders, and a
// folder may be writable but not readable; neither is an error. Throws DataError, which begins with
// "cannot write " and `path`, the file or folder that is being written. Any thread.
void sync_folder(const std::string& folder, const std::string& path);

// Puts the content of a file on the disk, whoever has written it. A file that does not exist or
// must not be read, and what cannot be synced, are no errors. Throws DataError. Any thread.
void sync_file(const std::string& path);

// Makes a folder and those above it that are missing, and puts their names on the disk. Returns why
// it cannot be made; throws DataError as sync_folder() does. Any thread.
std::error_code make_folders(const std::string& folder);

// Writes `text` as the whole content of a file, and commits it.
void write_file(const std::string& path, std::string_view text);

}  // namespace runtime::system

#endif  // RUNTIME_SYSTEM_ATOMIC_FILE_H_
