// Makes anonymous shared memory, and opens that of another process through /proc.
#include "collectives/shared_memory/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "collectives/shared_memory/machine.h"

namespace collectives::shared_memory {
namespace {

constexpr std::size_t kTokenBytes = 128;  // the token has lines of its own

}  // namespace

Segment::~Segment() {
  close_file();
  if (memory_ != nullptr) ::munmap(memory_, mapped_);
}

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(mapped_, other.mapped_);
  std::swap(file_, other.file_);
  return *this;
}

bool Segment::map(int file, std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return false;
  memory_ = memory;
  mapped_ = bytes;
  return true;
}

// The memory is taken at once: where the system has none left, touching it later would end the
// process.
Segment Segment::make(std::size_t bytes) {
  Segment segment;
  uint64_t token = 0;
  if (::getrandom(&token, sizeof(token), GRND_NONBLOCK) != sizeof(token) || token == 0) return {};
  const std::size_t whole = bytes + kTokenBytes;
  rlimit most{};  // a larger file would bring the signal SIGXFSZ
  if (::getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur < whole) return {};
  segment.file_ = ::memfd_create("runtime ranks", MFD_CLOEXEC);
  if (segment.file_ < 0 || ::fallocate(segment.file_, 0, 0, static_cast<off_t>(whole)) != 0)
    return {};
  if (!segment.map(segment.file_, whole)) return {};
  *static_cast<uint64_t*>(segment.memory_) = token;
  return segment;
}

// Another process may have taken the number of a process that has ended, so the token decides.
Segment Segment::open(const SegmentCard& card, std::size_t bytes) {
  const std::size_t whole = bytes + kTokenBytes;
  if (card.machine == 0 || card.machine != machine() || card.bytes != whole) return {};
  const std::string path =
      "/proc/" + std::to_string(card.process) + "/fd/" + std::to_string(card.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return {};
  Segment segment;
  struct stat status {};
  const bool fits = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                    static_cast<std::size_t>(status.st_size) == whole;
  const bool mapped = fits && segment.map(file, whole);
  ::close(file);
  if (!mapped || *static_cast<const uint64_t*>(segment.memory_) != card.token) return {};
  return segment;
}

SegmentCard Segment::card() const {
  if (memory_ == nullptr) return {};
  return {machine(), ::getpid(), file_, mapped_, *static_cast<const uint64_t*>(memory_)};
}

void Segment::close_file() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

std::byte* Segment::data() const { return static_cast<std::byte*>(memory_) + kTokenBytes; }

}  // namespace collectives::shared_memory
