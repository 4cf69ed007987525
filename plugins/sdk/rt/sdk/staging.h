// Host memory for the sources of queued copies: the caller of rt_device_api.copy may reuse pageable
// memory as soon as the call returns, while the device reads it later.
#ifndef RT_SDK_STAGING_H_
#define RT_SDK_STAGING_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace rt::sdk {

// A ring of blocks that are used again in turn, each as soon as the copy that reads it has run.
// `Ticket` tells that: a vendor's event, or a number of a counted record. The ring never waits. It
// grows while all its blocks are in use, so that a loop that copies the same sizes again and again
// allocates nothing after the first rounds. One thread may use it at a time, as a stream.
template <typename Ticket>
class StagingRing {
 public:
  // Copies `bytes` bytes into a block and returns its address. `has_run(ticket)` tells whether the
  // work of a ticket has run. The block is free to be used again when the ticket has run that the
  // next call of hand_over() gives it.
  template <typename HasRun>
  std::byte* stage(const void* source, uint64_t bytes, HasRun&& has_run) {
    const auto is_free = [&](const Block& block) {
      return block.bytes >= bytes && has_run(block.ticket);
    };
    const auto first = blocks_.begin() + static_cast<std::ptrdiff_t>(next_);
    auto block = std::find_if(first, blocks_.end(), is_free);
    if (block == blocks_.end()) block = std::find_if(blocks_.begin(), first, is_free);
    if (block == blocks_.end() || !is_free(*block)) block = add(bytes);
    current_ = static_cast<size_t>(block - blocks_.begin());
    next_ = (current_ + 1) % blocks_.size();
    std::memcpy(block->memory.get(), source, bytes);
    return block->memory.get();
  }
  // Says which ticket stands for the copy out of the block that stage() returned last.
  void hand_over(Ticket ticket) { blocks_[current_].ticket = std::move(ticket); }

  // Bytes of all blocks.
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const Block& block : blocks_) sum += block.bytes;
    return sum;
  }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    uint64_t bytes = 0;
    Ticket ticket{};
  };

  // Blocks have powers of two of bytes, at least a page, so that similar sizes share them.
  auto add(uint64_t bytes) {
    const uint64_t size = std::bit_ceil(std::max<uint64_t>(bytes, 4096));
    blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size, Ticket{}});
    return blocks_.end() - 1;
  }

  std::vector<Block> blocks_;
  size_t next_ = 0, current_ = 0;
};

}  // namespace rt::sdk

#endif  // RT_SDK_STAGING_H_
