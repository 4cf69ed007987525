// Memory that ranks of one machine share.
#ifndef COLLECTIVES_SHARED_MEMORY_SEGMENT_H_
#define COLLECTIVES_SHARED_MEMORY_SEGMENT_H_

#include <cstddef>
#include <cstdint>

namespace collectives::shared_memory {

// The rank that has made a segment gives this card to the others, so that they can open it.
struct SegmentCard {
  uint64_t machine = 0;  // see machine(); 0: there is no segment
  int64_t process = 0;
  int64_t file = -1;  // in that process
  uint64_t bytes = 0;
  uint64_t token = 0;  // stands at the beginning of the segment
};

// A segment of memory of several processes. It has no name in the file system, so that nothing is
// left when the processes end in whatever way. Not thread-safe. Equivalent to:
// MPI_Win_allocate_shared.
class Segment {
 public:
  Segment() = default;
  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;

  // Makes a segment with room for `bytes` bytes, which are 0, and takes the memory for it. An empty
  // segment is the result if the system refuses. Does not throw.
  static Segment make(std::size_t bytes);
  // Opens the segment of another process, which has made it for as many bytes. An empty segment is
  // the result if that process runs on another machine, has closed its file or ended, or if the
  // system forbids it. Does not throw.
  static Segment open(const SegmentCard& card, std::size_t bytes);

  explicit operator bool() const { return memory_ != nullptr; }
  // Valid until close_file().
  SegmentCard card() const;
  // Closes the file once all others have opened it; the memory stays.
  void close_file();
  // The memory behind the token; aligned to a cache line.
  std::byte* data() const;

 private:
  bool map(int file, std::size_t bytes);

  void* memory_ = nullptr;
  std::size_t mapped_ = 0;
  int file_ = -1;
};

}  // namespace collectives::shared_memory

#endif  // COLLECTIVES_SHARED_MEMORY_SEGMENT_H_
