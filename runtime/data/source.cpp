// Reads files and memory front to back, and inflates what is compressed.
#include "runtime/data/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "runtime/error.h"
#include "runtime/system/available_memory.h"

namespace runtime::data {
namespace {

std::string remedy_for(int error) {
  if (error == ENOENT || error == ENOTDIR) return "; check the path";
  if (error == EACCES) return "; give this user permission to read it (chmod, chown)";
  return "";
}

[[noreturn]] void fail_to_open(const std::string& path, int error) {
  throw DataError("cannot open data file " + path + ": " + std::generic_category().message(error) +
                  remedy_for(error));
}

class FileSource final : public RawSource {
 public:
  explicit FileSource(const std::string& path) : RawSource(path), file_(path) {}

  uint64_t limit() const override { return file_.size() > offset() ? file_.size() - offset() : 0; }

 protected:
  std::size_t do_read(uint8_t* out, std::size_t size) override {
    return file_.read_at(offset(), out, size);
  }

 private:
  File file_;
};

class MemorySource final : public RawSource {
 public:
  MemorySource(const void* data, std::size_t size, std::string name)
      : RawSource(std::move(name)), data_(static_cast<const uint8_t*>(data)), size_(size) {}
  uint64_t limit() const override { return size_ - offset(); }

 protected:
  std::size_t do_read(uint8_t* out, std::size_t size) override {
    const std::size_t count = std::min<std::size_t>(size, limit());
    if (count > 0) std::memcpy(out, data_ + offset(), count);
    return count;
  }

 private:
  const uint8_t* data_;
  std::size_t size_;
};

// Makes room for `wanted` bytes. A string at least doubles when it grows, because the length of a
// compressed file is unknown before its end; for a plain file the whole length is taken at once.
void make_room(std::string& text, std::size_t wanted, const Source& source) {
  if (wanted <= text.capacity()) return;
  const bool plain = dynamic_cast<const FileSource*>(&source) != nullptr;
  const std::size_t whole = plain && text.empty() ? source.limit() : 0;
  const std::size_t next = std::max({wanted, whole + wanted, 2 * text.capacity()});
  system::require_memory(
      next,
      source.name() + ": " + std::to_string(text.size()) + " bytes are read; more room for it",
      "use a smaller file or a machine with more memory");
  text.reserve(next);
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw DataError("cannot read data file " + path + ": " + why);
}

}  // namespace

// O_NONBLOCK keeps open() from waiting for the writer of a pipe; the constructor then refuses
// pipes.
File::File(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_ < 0) fail_to_open(path_, errno);
  struct stat info = {};
  std::string why;
  if (::fstat(fd_, &info) != 0) {
    why = std::generic_category().message(errno);
  } else if (S_ISDIR(info.st_mode)) {
    why = "it is a folder; expected a file";
  } else if (!S_ISREG(info.st_mode)) {
    why = "it is a device or a pipe; expected a regular file";
  }
  size_ = static_cast<uint64_t>(info.st_size);
  if (why.empty()) return;
  ::close(fd_);
  refuse(path_, why);
}

File::~File() { ::close(fd_); }

std::size_t File::read_at(uint64_t offset, void* out, std::size_t size) const {
  constexpr std::size_t kMaxCall = std::size_t{1} << 30;
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(fd_, static_cast<uint8_t*>(out) + done,
                                std::min(size - done, kMaxCall), static_cast<off_t>(offset + done));
    if (got == 0) break;
    if (got > 0) done += static_cast<std::size_t>(got);
    if (got < 0 && errno != EINTR)
      fail_at(path_, offset + done, "reading failed: " + std::generic_category().message(errno));
  }
  return done;
}

Bytes make_bytes(std::size_t size) {
  return {std::make_unique_for_overwrite<uint8_t[]>(size), size};
}

void fail_at(const std::string& name, uint64_t offset, const std::string& message) {
  throw DataError(name + ": at byte " + std::to_string(offset) + ": " + message);
}

std::size_t Source::read(void* out, std::size_t size) {
  const std::size_t count = do_read(static_cast<uint8_t*>(out), size);
  offset_ += count;
  return count;
}

void Source::read_exactly(void* out, std::size_t size, const std::string& what) {
  const uint64_t begin = offset_;
  const std::size_t count = read(out, size);
  if (count == size) return;
  fail_at(name_, begin + count,
          "the data end within " + what + ": expected " + std::to_string(size) +
              " bytes from byte " + std::to_string(begin) + ", found " + std::to_string(count) +
              "; the file is cut, fetch it again");
}

void Source::expect_end() {
  const uint64_t end = offset_;
  uint8_t extra = 0;
  if (read(&extra, 1) != 0) {
    fail_at(name_, end, "trailing bytes: expected the end here, as the header says");
  }
}

void Source::fail(const std::string& message) const { fail_at(name_, offset_, message); }

std::unique_ptr<RawSource> open_file(const std::string& path) {
  return std::make_unique<FileSource>(path);
}

std::string read_text(const std::string& path, uint64_t limit) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  const std::unique_ptr<Source> source = gunzip_if_needed(open_file(path));
  std::string text;
  for (std::size_t got = kBlock; got == kBlock;) {
    const std::size_t begin = text.size();
    make_room(text, begin + kBlock, *source);
    text.resize(begin + kBlock);
    got = source->read(text.data() + begin, kBlock);
    text.resize(begin + got);
    if (text.size() > limit) {
      source->fail("the file goes on; expected at most " + std::to_string(limit) + " bytes");
    }
  }
  source->expect_end();
  return text;
}

std::string read_marked_text(const std::string& path, uint64_t limit) {
  std::string text = read_text(path, limit);
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

std::unique_ptr<RawSource> memory_source(const void* data, std::size_t size, std::string name) {
  return std::make_unique<MemorySource>(data, size, std::move(name));
}

}  // namespace runtime::data
