// Replaces a file as a whole: readers see the old content or the new one, also after a power cut.
#ifndef RUNTIME_DATA_ATOMIC_FILE_H_
#define RUNTIME_DATA_ATOMIC_FILE_H_

#include <cstddef>
#include <string>

namespace runtime::data {

// Writes to a temporary file in the same folder, which commit() moves to `path`; without commit()
// nothing remains. Errors are DataError. Used by one thread.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);
  // fsync of the file, rename, fsync of the folder.
  void commit();

 private:
  [[noreturn]] void fail(const std::string& doing) const;

  std::string path_;
  std::string folder_;
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_ATOMIC_FILE_H_
