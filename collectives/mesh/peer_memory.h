// Reading the memory of another rank that is a process of the same machine.
#ifndef COLLECTIVES_MESH_PEER_MEMORY_H_
#define COLLECTIVES_MESH_PEER_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace collectives::mesh {

// A rank gives its peers this card, so that they can read its memory.
struct MemoryCard {
  uint64_t machine = 0;  // the same for processes that can see each other; 0: no process can
  int64_t process = 0;
  uint64_t address = 0;  // of the token, in the process
  uint64_t token = 0;
};

// A word in this process. Peers find it at the address in the card if they read the right process;
// they read it again behind the data, so that they know that the data were still offered. Revoking
// it makes all further reads fail, and those that are under way. Thread-safe.
class Token {
 public:
  Token();
  ~Token() { revoke(); }
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;

  MemoryCard card() const;
  void revoke() { value_ = 0; }
  // Whether it has not been revoked.
  bool holds() const { return value_ != 0; }

 private:
  std::atomic<uint64_t> value_;
};

// The memory of one peer. Equivalent to: the "cross memory attach" of Open MPI and UCX.
// Thread-safe.
class PeerMemory {
 public:
  // Memory that cannot be read.
  PeerMemory() = default;
  // Tries to read the peer's token: another machine, container or network namespace, and a system
  // that forbids it, make the memory unreadable. Does not throw.
  explicit PeerMemory(const MemoryCard& peer);

  bool is_readable() const { return card_.machine != 0; }
  // Copies `bytes` bytes at `address` of the peer to `to`. Returns false, with any bytes in `to`,
  // if the peer has ended, has revoked its token or never had such memory.
  bool read(uint64_t address, char* to, std::size_t bytes) const;

 private:
  MemoryCard card_;
};

}  // namespace collectives::mesh

#endif  // COLLECTIVES_MESH_PEER_MEMORY_H_
