// Writes a file as a whole: readers see the old content or the new one, also after a power cut.
#ifndef RUNTIME_SYSTEM_ATOMIC_FILE_H_
#define RUNTIME_SYSTEM_ATOMIC_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace runtime::system {

// A regular file is written under a temporary name in its folder, with an unpredictable part, and
// commit() moves it to `path`; without commit() nothing remains and an older file is untouched.
// A symbolic link is followed: the file that it names is replaced, the link stays.
// A device node or a FIFO, and what the process has open under /proc (/dev/stdout), is written
// through, never replaced; what was written before an error cannot be taken back then.
// A folder is refused. Access bits are those of a new file under the umask.
// Errors are DataError with the path, the reason and a remedy. Used by one thread.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // When it returns, the content and the name are on the disk (fsync of the file, rename, fsync of
  // the folder). Nothing may be written afterwards.
  void commit();

 private:
  [[noreturn]] void fail(const std::string& doing, int error) const;
  void open_through();
  void open_temporary();
  void sync_folder() const;

  const std::string path_;  // as the caller has named it, for messages
  std::string target_;      // what `path_` leads to
  std::string folder_;      // of the target
  std::string temporary_;   // empty: the target is written through
  int fd_ = -1;
};

// The whole text of a file, committed.
void write_file(const std::string& path, std::string_view text);

}  // namespace runtime::system

#endif  // RUNTIME_SYSTEM_ATOMIC_FILE_H_
