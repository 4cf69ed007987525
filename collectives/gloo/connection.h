// The connection with one other rank. Once both ranks have asked for a message, it goes from the
// memory of the sender straight into the memory of the receiver.
#ifndef COLLECTIVES_GLOO_CONNECTION_H_
#define COLLECTIVES_GLOO_CONNECTION_H_

#include <gloo/common/error.h>
#include <gloo/transport/pair.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/mesh/peer_memory.h"
#include "collectives/mesh/progress_thread.h"
#include "collectives/mesh/socket.h"

namespace collectives::gloo {

// The error that breaks a connection if the two ranks do not expect the same messages.
struct Disagreement : ::gloo::Exception {
  Disagreement(int p, const std::string& what_it_does) : Exception(what_it_does), peer(p) {}
  int peer;
};

// Is told the outcome of a transfer. Called by any thread, with the connection's lock held.
class TransferOwner {
 public:
  virtual void sent(int peer) = 0;
  virtual void received(int peer) = 0;
  virtual void failed(const std::exception_ptr& why) = 0;

 protected:
  ~TransferOwner() = default;
};

// A receiver announces for which slot it has room, and the sender then sends its message for that
// slot. If the receiver can read the sender's memory, the sender only says where a large message
// lies, and the receiver copies it and says so. No message therefore waits in memory of this
// plugin, and a slow message does not hold up others. Messages of one slot keep their order. A
// message whose size differs from what its receiver expects breaks the connection.
//
// Thread-safe. The callers of send() and receive() write as much as the socket takes at once; the
// progress thread does the rest.
class Connection final : public ::gloo::transport::Pair, private mesh::ProgressThread::Handler {
 public:
  // `socket` must be connected and non-blocking. `progress` is the number that this rank sends back
  // when the peer calls ask(). `memory` is that of the peer; `own`, the token of this rank, is
  // revoked if the connection has offered memory that it can no longer answer for.
  Connection(mesh::ProgressThread& progress_thread, mesh::Socket socket, int peer,
             const std::atomic<int64_t>& progress, const mesh::PeerMemory& memory,
             mesh::Token& own);
  ~Connection() override;

  // Both throw the reason if the connection is lost: ::gloo::IoException or Disagreement. The
  // memory must stay valid until the owner is told, or until forget() has returned.
  void send(TransferOwner& owner, uint64_t slot, const char* data, std::size_t bytes);
  void receive(TransferOwner& owner, uint64_t slot, char* data, std::size_t bytes);
  // Asks the peer for its progress. Its I/O thread answers, even while the rank computes. Does
  // nothing if the connection is lost.
  void ask();
  // The answer to the last ask(); nullopt: none yet.
  std::optional<int64_t> answer();
  // After forget() nothing touches the owner or its memory. If a message of the owner has been sent
  // in part, this breaks the connection.
  void forget(const TransferOwner& owner);

  // Whether the connection is closed or broken.
  bool is_lost();
  // Closes the connection. Data that were written before still reach the peer.
  void close() override;

  // The rest of Gloo's interface. Gloo's collectives do not use these functions; they throw.
  const ::gloo::transport::Address& address() const override;
  void connect(const std::vector<char>& bytes) override;
  void setSync(bool enable, bool busy) override;
  std::unique_ptr<::gloo::transport::Buffer> createSendBuffer(int, void*, size_t) override;
  std::unique_ptr<::gloo::transport::Buffer> createRecvBuffer(int, void*, size_t) override;
  void send(::gloo::transport::UnboundBuffer*, uint64_t, size_t, size_t) override;
  void recv(::gloo::transport::UnboundBuffer*, uint64_t, size_t, size_t) override;

 private:
  // kReads: the sender of this header can read the memory of its receiver. kOffer: the message of
  // this slot lies at `address`. kTaken: the offer of this slot that is the oldest has been copied.
  enum class Kind : uint64_t {
    kRoom = 1,
    kData = 2,
    kAsk = 3,
    kAnswer = 4,
    kReads = 5,
    kOffer = 6,
    kTaken = 7
  };
  struct Header {
    Kind kind = Kind::kRoom;
    uint64_t slot = 0;  // for kAnswer: the progress
    uint64_t bytes = 0;
    uint64_t address = 0;
  };
  struct Transfer {
    TransferOwner* owner = nullptr;
    char* data = nullptr;
    std::size_t bytes = 0;
  };
  struct Outgoing {
    Header header;
    Transfer transfer;  // without an owner the message is only the header
    std::size_t done = 0;
  };
  struct Slot {
    std::deque<Transfer> sends, receives, offered;
    std::deque<std::size_t> room;  // sizes that the peer has announced and this rank has not sent
  };

  void on_events() override;
  // Called with the lock held:
  void check() const;
  void start_send(uint64_t slot, const Transfer& transfer, std::size_t room);
  void send_header(const Header& header, const Transfer& transfer);
  void flush();
  bool read_some();
  void take(const char* data, std::size_t bytes);
  void on_header();
  void on_message(Slot& slot);
  void copy_offered();
  void withdraw(Transfer& offered);
  void on_taken(Slot& slot);
  void finish_receive();
  void disagree(const char* what, std::size_t theirs, std::size_t ours);
  void fail(const std::exception_ptr& why);

  mesh::ProgressThread& progress_thread_;
  const int peer_;
  const std::atomic<int64_t>& progress_;
  const mesh::PeerMemory memory_;
  mesh::Token& own_;
  std::mutex mutex_;  // guards the members below
  mesh::Socket socket_;
  std::exception_ptr failure_;
  std::optional<int64_t> answer_;
  std::unordered_map<uint64_t, Slot> slots_;
  std::deque<Outgoing> outgoing_;
  bool wants_output_ = false, broken_output_ = false;
  bool peer_reads_ = false;  // the peer can read the memory of this rank
  // The message that is being received.
  Header header_;
  std::size_t header_bytes_ = 0, data_bytes_ = 0;  // bytes that have arrived
  std::vector<Transfer> stranded_;  // received from memory that cannot be read any more
  Transfer incoming_;  // receives header_.bytes of data; if it has no owner, they are discarded
  std::array<char, 4096> input_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_CONNECTION_H_
