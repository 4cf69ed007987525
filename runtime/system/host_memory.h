// Memory that one process fills and the other processes of a job on the same machine read.
#ifndef RUNTIME_SYSTEM_HOST_MEMORY_H_
#define RUNTIME_SYSTEM_HOST_MEMORY_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace runtime::system {

// Takes the content of a memory, piece by piece.
class Pieces {
 public:
  virtual ~Pieces() = default;
  // Begins the next piece, which will have about so many bytes.
  virtual void begin(std::size_t expected_bytes) = 0;
  // Adds bytes to the piece that was begun last. Throws DataError if there is no memory for them.
  virtual void add(const void* bytes, std::size_t size) = 0;
};

// Memory that does not change any more: pieces of bytes, each of which is aligned for every number.
// Any thread may read.
class HostMemory {
 public:
  using Fill = std::function<void(Pieces& pieces)>;

  virtual ~HostMemory() = default;
  std::size_t count() const { return pieces_.size(); }
  std::span<const std::byte> piece(std::size_t index) const { return pieces_.at(index); }
  // A piece as numbers.
  template <class Number>
  std::span<const Number> numbers(std::size_t index) const {
    const std::span<const std::byte> bytes = piece(index);
    return {reinterpret_cast<const Number*>(bytes.data()), bytes.size() / sizeof(Number)};
  }

 protected:
  std::vector<std::span<const std::byte>> pieces_;
};

// Fills memory of this process alone. Throws what `fill` throws.
std::shared_ptr<const HostMemory> fill_memory(const HostMemory::Fill& fill);

// The memory, and why it is this process's own although it was to be shared.
struct SharedMemory {
  std::shared_ptr<const HostMemory> memory;
  std::string why_not;  // "": it is shared
};

// Returns the memory that belongs to `key`, which says what is in it. Of the processes of one user
// on this machine that ask for the same key, one calls `fill`, while the others wait for it and
// then map the same pages; the memory lives until the last of them has released it, also if the
// first one ends before. It leaves nothing behind, however the processes end. Where memory cannot
// be shared, or the process that fills it gives no sign of life for `patience_s` seconds, this
// process calls `fill` for itself. Throws what `fill` throws, and DataError with the same words in
// the processes that wait for it if that is a DataError. Equivalent to:
// torch.multiprocessing's shared tensors.
SharedMemory share_memory(const std::string& key, const HostMemory::Fill& fill,
                          double patience_s = 30);

}  // namespace runtime::system

#endif  // RUNTIME_SYSTEM_HOST_MEMORY_H_
