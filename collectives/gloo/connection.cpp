// Sends and receives the headers and bytes of messages on one socket, or reads offered memory
// directly.
#include "connection.h"

#include <gloo/common/error.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rt/sdk/error.h"

namespace collectives::gloo {

using rt::sdk::format;

namespace {

std::exception_ptr lost(const std::string& why) {
  return std::make_exception_ptr(::gloo::IoException(why));
}

// From this size on a message is offered, if the peer can read this rank's memory.
constexpr std::size_t kOfferedBytes = 64 << 10;

[[noreturn]] void refuse(const char* what) { throw ::gloo::InvalidOperationException(what); }

}  // namespace

Connection::Connection(mesh::ProgressThread& progress_thread, mesh::Socket socket, int peer,
                       const std::atomic<int64_t>& progress, const mesh::PeerMemory& memory,
                       mesh::Token& own)
    : progress_thread_(progress_thread),
      peer_(peer),
      progress_(progress),
      memory_(memory),
      own_(own),
      socket_(std::move(socket)) {
  setLocalRank(0);
  progress_thread_.add(socket_.get(), *this);
  const std::lock_guard lock(mutex_);
  if (memory_.is_readable()) send_header({Kind::kReads}, {});
}

Connection::~Connection() { close(); }

void Connection::close() {
  progress_thread_.remove(socket_.get(), *this);
  const std::lock_guard lock(mutex_);
  if (!failure_) fail(lost("this rank has closed the connection"));
  socket_ = mesh::Socket();
}

bool Connection::is_lost() {
  const std::lock_guard lock(mutex_);
  return failure_ != nullptr;
}

void Connection::check() const {
  if (failure_) std::rethrow_exception(failure_);
}

void Connection::send(TransferOwner& owner, uint64_t slot, const char* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  check();
  Slot& place = slots_[slot];
  const Transfer transfer{&owner, const_cast<char*>(data), bytes};
  if (place.room.empty()) {
    place.sends.push_back(transfer);
    return;
  }
  const std::size_t room = place.room.front();
  place.room.pop_front();
  start_send(slot, transfer, room);
  check();
}

void Connection::start_send(uint64_t slot, const Transfer& transfer, std::size_t room) {
  if (room != transfer.bytes) {
    disagree("expects", room, transfer.bytes);
    transfer.owner->failed(failure_);
  } else if (own_.holds() && peer_reads_ && room >= kOfferedBytes) {
    slots_[slot].offered.push_back(transfer);
    send_header({Kind::kOffer, slot, room, reinterpret_cast<uint64_t>(transfer.data)}, {});
  } else {
    send_header({Kind::kData, slot, room}, transfer);
  }
}

void Connection::receive(TransferOwner& owner, uint64_t slot, char* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  check();
  slots_[slot].receives.push_back({&owner, data, bytes});
  send_header({Kind::kRoom, slot, bytes}, {});
}

void Connection::send_header(const Header& header, const Transfer& transfer) {
  outgoing_.push_back({header, transfer, 0});
  if (!wants_output_) flush();
}

// Writes as much as the socket takes. An error is noticed when the rest of the peer's data is read.
void Connection::flush() {
  while (!outgoing_.empty() && !broken_output_) {
    Outgoing& o = outgoing_.front();
    const std::size_t header = o.done < sizeof(Header) ? sizeof(Header) - o.done : 0;
    const std::size_t data = o.done < sizeof(Header) ? 0 : o.done - sizeof(Header);
    iovec parts[2] = {{reinterpret_cast<char*>(&o.header) + sizeof(Header) - header, header},
                      {o.transfer.data + data, o.transfer.bytes - data}};
    msghdr message{};
    message.msg_iov = header > 0 ? parts : parts + 1;
    message.msg_iovlen = header > 0 && o.transfer.bytes > 0 ? 2 : 1;
    const ssize_t written = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    broken_output_ = written < 0;
    if (broken_output_) break;
    o.done += static_cast<std::size_t>(written);
    if (o.done < sizeof(Header) + o.transfer.bytes) continue;
    if (o.transfer.owner != nullptr) o.transfer.owner->sent(peer_);
    outgoing_.pop_front();
  }
  const bool wanted = !outgoing_.empty() && !broken_output_;
  if (wanted != wants_output_) progress_thread_.want_output(socket_.get(), *this, wanted);
  wants_output_ = wanted;
}

void Connection::on_events() {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  if (wants_output_) flush();
  while (!failure_ && read_some()) {
  }
}

// Reads once: large data straight to their destination, the rest through input_. Returns false if
// there is no more now.
bool Connection::read_some() {
  const std::size_t left =
      header_bytes_ == sizeof(Header) ? static_cast<std::size_t>(header_.bytes) - data_bytes_ : 0;
  const bool direct = left >= input_.size() && incoming_.owner != nullptr;
  char* const to = direct ? incoming_.data + data_bytes_ : input_.data();
  const std::size_t room = direct ? left : input_.size();
  const ssize_t bytes = ::recv(socket_.get(), to, room, 0);
  if (bytes < 0 && errno == EINTR) return true;
  if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (bytes <= 0) {
    const char* const what = bytes == 0 ? "closed by the other side" : std::strerror(errno);
    fail(lost(format("the connection with rank %d: %s", peer_, what)));
    return false;
  }
  if (!direct) {
    take(input_.data(), static_cast<std::size_t>(bytes));
  } else {
    data_bytes_ += static_cast<std::size_t>(bytes);
    if (data_bytes_ == header_.bytes) finish_receive();
  }
  return static_cast<std::size_t>(bytes) == room;
}

void Connection::take(const char* data, std::size_t bytes) {
  while (bytes > 0 && !failure_) {
    std::size_t part = 0;
    if (header_bytes_ < sizeof(Header)) {
      part = std::min(bytes, sizeof(Header) - header_bytes_);
      std::memcpy(reinterpret_cast<char*>(&header_) + header_bytes_, data, part);
      header_bytes_ += part;
      if (header_bytes_ == sizeof(Header)) on_header();
    } else {
      part = std::min<std::size_t>(bytes, header_.bytes - data_bytes_);
      if (incoming_.owner != nullptr) std::memcpy(incoming_.data + data_bytes_, data, part);
      data_bytes_ += part;
      if (data_bytes_ == header_.bytes) finish_receive();
    }
    data += part;
    bytes -= part;
  }
}

void Connection::on_header() {
  if (header_.kind == Kind::kAsk || header_.kind == Kind::kAnswer) {
    header_bytes_ = 0;
    if (header_.kind == Kind::kAnswer)
      answer_ = static_cast<int64_t>(header_.slot);
    else
      send_header({Kind::kAnswer, static_cast<uint64_t>(progress_.load()), 0}, {});
    return;
  }
  if (header_.kind == Kind::kReads) {
    header_bytes_ = 0;
    peer_reads_ = true;
    return;
  }
  Slot& slot = slots_[header_.slot];
  if (header_.kind == Kind::kTaken) return on_taken(slot);
  if (header_.kind == Kind::kRoom) {
    header_bytes_ = 0;
    if (slot.sends.empty()) return slot.room.push_back(header_.bytes);
    const Transfer transfer = slot.sends.front();
    slot.sends.pop_front();
    return start_send(header_.slot, transfer, header_.bytes);
  }
  on_message(slot);
}

// A message for which this rank has room: its data follow, or lie in the peer's memory.
void Connection::on_message(Slot& slot) {
  const bool offered = header_.kind == Kind::kOffer;
  if ((!offered && header_.kind != Kind::kData) || slot.receives.empty())
    return disagree("sends", header_.bytes, 0);
  incoming_ = slot.receives.front();
  slot.receives.pop_front();
  data_bytes_ = 0;
  if (header_.bytes != incoming_.bytes) return disagree("sends", header_.bytes, incoming_.bytes);
  if (offered) return copy_offered();
  if (header_.bytes == 0) finish_receive();
}

// If the memory cannot be read any more, the peer has ended or given up. Why, the connection tells
// soon: by a notice of leaving, or because it is closed.
void Connection::copy_offered() {
  if (incoming_.owner == nullptr ||
      memory_.read(header_.address, incoming_.data, incoming_.bytes)) {
    send_header({Kind::kTaken, header_.slot}, {});
    return finish_receive();
  }
  stranded_.push_back(incoming_);
  header_bytes_ = 0;
  incoming_ = {};
}

void Connection::on_taken(Slot& slot) {
  header_bytes_ = 0;
  if (slot.offered.empty()) return disagree("has copied", 0, 0);
  if (slot.offered.front().owner != nullptr) slot.offered.front().owner->sent(peer_);
  slot.offered.pop_front();
}

void Connection::finish_receive() {
  header_bytes_ = 0;
  if (incoming_.owner != nullptr) incoming_.owner->received(peer_);
  incoming_ = {};
}

// Shuts the socket down, so that the peer fails at once and not at its timeout.
void Connection::disagree(const char* what, std::size_t theirs, std::size_t ours) {
  fail(std::make_exception_ptr(Disagreement(
      peer_, format("%s a message of %zu bytes where this rank has one of %zu; the ranks disagree "
                    "on the order, the type or the count of their calls",
                    what, theirs, ours))));
  ::shutdown(socket_.get(), SHUT_RDWR);
}

// The owners of offered memory may use it for something else as soon as they are told, so the token
// is revoked before. The socket stays open until the end of this object, so that its number is not
// used again.
void Connection::fail(const std::exception_ptr& why) {
  failure_ = why;
  progress_thread_.mute(socket_.get());
  const auto tell = [&](const Transfer& t) {
    if (t.owner != nullptr) t.owner->failed(why);
  };
  for (const auto& [number, slot] : slots_) {
    if (!slot.offered.empty()) own_.revoke();
  }
  for (const Outgoing& o : outgoing_) tell(o.transfer);
  for (const auto& [number, slot] : slots_) {
    for (const Transfer& t : slot.offered) tell(t);
    for (const Transfer& t : slot.sends) tell(t);
    for (const Transfer& t : slot.receives) tell(t);
  }
  tell(incoming_);
  for (const Transfer& t : stranded_) tell(t);
  stranded_.clear();
  outgoing_.clear();
  slots_.clear();
  incoming_ = {};
}

// The peer cannot read the message any more; if it has read it, its answer is still to come. The
// connection stays, because the notice of leaving goes over it. Later messages go over it as well:
// without the token no peer could see whether an offer still holds.
void Connection::withdraw(Transfer& offered) {
  own_.revoke();
  offered.owner = nullptr;
}

void Connection::ask() {
  const std::lock_guard lock(mutex_);
  answer_.reset();
  if (!failure_) send_header({Kind::kAsk, 0, 0}, {});
}

std::optional<int64_t> Connection::answer() {
  const std::lock_guard lock(mutex_);
  return answer_;
}

void Connection::forget(const TransferOwner& owner) {
  const std::lock_guard lock(mutex_);
  const auto its = [&](const Transfer& t) { return t.owner == &owner; };
  for (auto& [number, slot] : slots_) {
    std::erase_if(slot.sends, its);
    for (Transfer& t : slot.receives) {  // data that arrive for it are dropped
      if (its(t)) t.owner = nullptr;
    }
  }
  if (its(incoming_)) incoming_.owner = nullptr;
  std::erase_if(stranded_, its);
  for (auto& [number, slot] : slots_) {
    for (Transfer& t : slot.offered) {
      if (its(t)) withdraw(t);
    }
  }
  std::erase_if(outgoing_, [&](const Outgoing& o) { return its(o.transfer) && o.done == 0; });
  if (outgoing_.empty() || !its(outgoing_.front().transfer)) return;
  outgoing_.front().transfer.owner = nullptr;
  fail(lost("this rank has given up a message that it was sending"));
}

const ::gloo::transport::Address& Connection::address() const {
  refuse("Connection: it is connected already");
}
void Connection::connect(const std::vector<char>&) {
  refuse("Connection: it is connected already");
}
void Connection::setSync(bool, bool) { refuse("Connection: it has no synchronous mode"); }
std::unique_ptr<::gloo::transport::Buffer> Connection::createSendBuffer(int, void*, size_t) {
  refuse("Connection: it has no buffers that are bound to it");
}
std::unique_ptr<::gloo::transport::Buffer> Connection::createRecvBuffer(int, void*, size_t) {
  refuse("Connection: it has no buffers that are bound to it");
}
void Connection::send(::gloo::transport::UnboundBuffer*, uint64_t, size_t, size_t) {
  refuse("Connection: send through the buffer");
}
void Connection::recv(::gloo::transport::UnboundBuffer*, uint64_t, size_t, size_t) {
  refuse("Connection: receive through the buffer");
}

}  // namespace collectives::gloo
