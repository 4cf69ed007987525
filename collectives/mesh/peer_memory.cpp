// Reads another process's memory with process_vm_readv, and proves by a token that it is the right
// process.
#include "collectives/mesh/peer_memory.h"

#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "collectives/shared_memory/machine.h"

namespace collectives::mesh {

namespace {

// The most bytes of one call; the kernel cuts calls of 2 GiB.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

}  // namespace

Token::Token() : value_(0) {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), GRND_NONBLOCK) == sizeof(random)) value_ = random;
}

MemoryCard Token::card() const {
  const uint64_t token = value_;
  return {token == 0 ? 0 : shared_memory::machine(), ::getpid(),
          reinterpret_cast<uint64_t>(&value_), token};
}

PeerMemory::PeerMemory(const MemoryCard& peer) {
  if (peer.machine == 0 || peer.machine != shared_memory::machine()) return;
  card_ = peer;
  uint64_t token = 0;
  if (!read(card_.address, reinterpret_cast<char*>(&token), sizeof(token))) card_ = {};
}

// The kernel reads the ranges in their order, the token last.
bool PeerMemory::read(uint64_t address, char* to, std::size_t bytes) const {
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, kMostBytes);
    uint64_t token = 0;
    const iovec local[2] = {{to, part}, {&token, sizeof(token)}};
    const iovec remote[2] = {{std::bit_cast<void*>(address), part},
                             {std::bit_cast<void*>(card_.address), sizeof(token)}};
    const ssize_t read =
        ::process_vm_readv(static_cast<pid_t>(card_.process), local, 2, remote, 2, 0);
    if (read != static_cast<ssize_t>(part + sizeof(token)) || token != card_.token) return false;
    address += part;
    to += part;
    bytes -= part;
  }
  return true;
}

}  // namespace collectives::mesh
