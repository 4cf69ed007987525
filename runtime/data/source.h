// Bytes that are read from front to back: of a file, of memory, or decompressed. All file formats
// of this room are parsed from a Source, so that fuzzers feed the same code as files do.
#ifndef RUNTIME_DATA_SOURCE_H_
#define RUNTIME_DATA_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace runtime::data {

// Uninitialised host memory of a known size. The operating system gives a page only when data are
// written to it.
struct Bytes {
  std::unique_ptr<uint8_t[]> data;
  std::size_t size = 0;
};
// Throws std::bad_alloc.
Bytes make_bytes(std::size_t size);

// A regular file, open for reading. The constructor throws DataError if the file is missing or
// unreadable, or is a folder, a device or a pipe. Any thread may read.
class File {
 public:
  explicit File(std::string path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  // Returns the number of bytes read, which is less than `size` only at the end of the file.
  std::size_t read_at(uint64_t offset, void* out, std::size_t size) const;

 private:
  std::string path_;
  int fd_;
  uint64_t size_ = 0;
};

// A sequence of bytes. One thread uses an object. All errors are DataError with name and offset.
class Source {
 public:
  explicit Source(std::string name) : name_(std::move(name)) {}
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  const std::string& name() const { return name_; }
  // Bytes read so far.
  uint64_t offset() const { return offset_; }
  // Upper bound of the bytes that are still to come, which bounds every allocation.
  virtual uint64_t limit() const = 0;
  // Returns the number of bytes read, which is less than `size` only at the end.
  std::size_t read(void* out, std::size_t size);
  // Throws DataError if the data end early; `what` says what was being read, for example "the
  // header".
  void read_exactly(void* out, std::size_t size, const std::string& what);
  // Throws DataError if further bytes follow. Decompression verifies its checksum here.
  void expect_end();
  // Throws DataError "<name>: at byte <offset>: <message>".
  [[noreturn]] void fail(const std::string& message) const;

 protected:
  virtual std::size_t do_read(uint8_t* out, std::size_t size) = 0;
  void set_offset(uint64_t offset) { offset_ = offset; }

 private:
  std::string name_;
  uint64_t offset_ = 0;
};

// A source that can be read again from the beginning.
class RawSource : public Source {
 public:
  using Source::Source;
  void rewind() { set_offset(0); }
};

// Throws DataError "<name>: at byte <offset>: <message>".
[[noreturn]] void fail_at(const std::string& name, uint64_t offset, const std::string& message);

// Opens a file to be read as a source. Throws as File does.
std::unique_ptr<RawSource> open_file(const std::string& path);
// Returns all bytes of a file, decompressed if it is a gzip file. Refuses more than `limit` bytes,
// or more than there is memory for, before the memory is taken.
std::string read_text(const std::string& path, uint64_t limit = UINT64_MAX);
// The byte order mark with which some programs begin a text in UTF-8. It is no part of the text.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
// Returns the same without a byte order mark.
std::string read_marked_text(const std::string& path, uint64_t limit = UINT64_MAX);
// Returns a source over borrowed memory, which must outlive it.
std::unique_ptr<RawSource> memory_source(const void* data, std::size_t size, std::string name);
// Returns a source that decompresses if the first two bytes are those of gzip, whatever the name of
// the file is, and otherwise reads plain bytes. If it decompresses, offsets count decompressed
// bytes.
std::unique_ptr<Source> gunzip_if_needed(std::unique_ptr<RawSource> raw);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_SOURCE_H_
