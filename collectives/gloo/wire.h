// The connection with one other rank: messages go from the memory of the one straight into that of
// the other, once both have asked for it.
#ifndef COLLECTIVES_GLOO_WIRE_H_
#define COLLECTIVES_GLOO_WIRE_H_

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

#include "loop.h"
#include "socket.h"

namespace collectives::gloo {

// What breaks a connection when the two ranks do not expect the same messages.
struct Disagreement : ::gloo::Exception {
  Disagreement(int p, const std::string& what_it_does) : Exception(what_it_does), peer(p) {}
  int peer;
};

// Who is told what becomes of a transfer. Called with the wire's lock held, by any thread.
class TransferOwner {
 public:
  virtual void sent(int peer) = 0;
  virtual void received(int peer) = 0;
  virtual void failed(const std::exception_ptr& why) = 0;

 protected:
  ~TransferOwner() = default;
};

// A receiver says for which slot it has room; the sender then sends what it has for that slot. So
// a message never waits in memory of ours, and a slow one keeps no other away. Messages of one slot
// keep their order. A message of another size than its receiver expects breaks the connection.
//
// Thread-safe. The callers of send() and receive() write themselves what the socket takes at once;
// the loop's thread does the rest.
class Wire final : public ::gloo::transport::Pair, private Loop::Handler {
 public:
  // `socket`: connected and non-blocking. `progress`: what this rank answers to ask().
  Wire(Loop& loop, Socket socket, int peer, const std::atomic<int64_t>& progress);
  ~Wire() override;

  // Both throw why the connection is lost, if it is: ::gloo::IoException or Disagreement. The
  // memory must stay until the owner is told, or has called forget().
  void send(TransferOwner& owner, uint64_t slot, const char* data, std::size_t bytes);
  void receive(TransferOwner& owner, uint64_t slot, char* data, std::size_t bytes);
  // Asks the peer how far it is; its I/O thread answers, even while the rank computes. Does nothing
  // where the connection is lost.
  void ask();
  // What it has answered since; nullopt: nothing yet.
  std::optional<int64_t> answer();
  // Afterwards nothing touches the owner or its memory. If a message of it has been sent in part,
  // that breaks the connection.
  void forget(const TransferOwner& owner);

  bool is_lost();
  // What has been written before still reaches the peer.
  void close() override;

  // The rest of Gloo's interface, which its collectives do not use: throws.
  const ::gloo::transport::Address& address() const override;
  void connect(const std::vector<char>& bytes) override;
  void setSync(bool enable, bool busy) override;
  std::unique_ptr<::gloo::transport::Buffer> createSendBuffer(int, void*, size_t) override;
  std::unique_ptr<::gloo::transport::Buffer> createRecvBuffer(int, void*, size_t) override;
  void send(::gloo::transport::UnboundBuffer*, uint64_t, size_t, size_t) override;
  void recv(::gloo::transport::UnboundBuffer*, uint64_t, size_t, size_t) override;

 private:
  enum class Kind : uint64_t { kRoom = 1, kData = 2, kAsk = 3, kAnswer = 4 };
  struct Header {
    Kind kind = Kind::kRoom;
    uint64_t slot = 0;  // of kAnswer: the progress
    uint64_t bytes = 0;
  };
  struct Transfer {
    TransferOwner* owner = nullptr;
    char* data = nullptr;
    std::size_t bytes = 0;
  };
  struct Outgoing {
    Header header;
    Transfer transfer;  // without an owner: the header is all of it
    std::size_t done = 0;
  };
  struct Slot {
    std::deque<Transfer> sends, receives;
    std::deque<std::size_t> room;  // what the peer has room for, and we have not sent
  };

  void on_events() override;
  // All of these with the lock held.
  void check() const;
  void start_send(uint64_t slot, const Transfer& transfer, std::size_t room);
  void say(const Header& header, const Transfer& transfer);
  void flush();
  bool read_some();
  void take(const char* data, std::size_t bytes);
  void on_header();
  void finish_receive();
  void disagree(const char* what, std::size_t theirs, std::size_t ours);
  void fail(const std::exception_ptr& why);

  Loop& loop_;
  const int peer_;
  const std::atomic<int64_t>& progress_;
  std::mutex mutex_;  // of the rest
  Socket socket_;
  std::exception_ptr failure_;
  std::optional<int64_t> answer_;
  std::unordered_map<uint64_t, Slot> slots_;
  std::deque<Outgoing> outgoing_;
  bool wants_output_ = false, broken_output_ = false;
  // The message that is coming in.
  Header header_;
  std::size_t header_bytes_ = 0, data_bytes_ = 0;  // so much of it has come
  Transfer incoming_;  // header_.bytes of data go there, or nowhere without an owner
  std::array<char, 4096> input_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_WIRE_H_
