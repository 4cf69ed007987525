// Sealed anonymous memory, which the process that fills it hands to the others over a local socket.
#include "runtime/system/host_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/error.h"

namespace runtime::system {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
constexpr int kBeatMs = 1000;             // between two signs of life
constexpr std::size_t kMaxWords = 65536;  // bytes of an error that is passed on

// What the process that fills the memory sends: many kBusy, then one of the others.
enum Sign : char { kBusy = 'b', kReady = 'r', kFailed = 'f' };

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

std::string words_of(int error) { return std::generic_category().message(error); }

[[noreturn]] void no_memory(const std::string& reason) {
  throw DataError("the data of this machine's ranks do not fit its memory (" + reason +
                  "); use a smaller file or a machine with more memory");
}

// Memory of one process.
class OwnMemory final : public HostMemory, private Pieces {
 public:
  explicit OwnMemory(const Fill& fill) {
    fill(*this);
    for (const std::vector<std::byte>& content : contents_) pieces_.emplace_back(content);
  }

 private:
  void begin(std::size_t expected_bytes) override {
    contents_.emplace_back().reserve(expected_bytes);
  }
  void add(const void* bytes, std::size_t size) override {
    const auto* const first = static_cast<const std::byte*>(bytes);
    contents_.back().insert(contents_.back().end(), first, first + size);
  }

  std::vector<std::vector<std::byte>> contents_;
};

// Writes pieces into a file of memory. Behind them stand their sizes and, as the last number, how
// many there are.
class FilePieces final : public Pieces {
 public:
  explicit FilePieces(int file) : file_(file) {}
  void begin(std::size_t) override {
    align();
    sizes_.push_back(0);
  }
  void add(const void* bytes, std::size_t size) override {
    write(bytes, size);
    sizes_.back() += size;
  }
  void end() {
    align();
    sizes_.push_back(sizes_.size());
    write(sizes_.data(), sizes_.size() * sizeof(uint64_t));
  }

 private:
  void align() {
    constexpr char kZeros[kAlignment] = {};
    if (written_ % kAlignment != 0) write(kZeros, kAlignment - written_ % kAlignment);
  }
  void write(const void* bytes, std::size_t size) {
    const char* next = static_cast<const char*>(bytes);
    while (size > 0) {
      const ssize_t count = ::write(file_, next, size);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) no_memory(words_of(errno));
      next += count;
      size -= static_cast<std::size_t>(count);
      written_ += static_cast<std::size_t>(count);
    }
  }

  int file_;
  std::size_t written_ = 0;
  std::vector<uint64_t> sizes_;
};

// The name of the socket, which has no file and is gone with the process that bound it. Two keys
// may have one name: the first piece of the memory is the key.
sockaddr_un address_of(const std::string& key) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "runtime-memory-" + std::to_string(::geteuid()) + "-" +
                           std::to_string(std::hash<std::string>()(key)) + "-" +
                           std::to_string(key.size());
  std::copy(name.begin(), name.end(), address.sun_path + 1);  // the zero before it: no file
  return address;
}

Descriptor new_socket() {
  return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Whether the other end belongs to the user of this process.
bool is_own(int socket) {
  ucred other{};
  socklen_t size = sizeof(other);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
         other.uid == ::geteuid();
}

// Sends a sign, with a descriptor if `file` is none below 0. False: the other end has gone.
bool send_sign(int socket, char sign, int file = -1) {
  iovec bytes{&sign, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof(int));
  }
  // The buffer of a process that does not read is full at some time: it has missed nothing then.
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1 || errno == EAGAIN;
}

// Answers the processes that ask for a memory, from a thread of its own, until it is destroyed.
class Server {
 public:
  Server(Descriptor listener, Descriptor wake)
      : listener_(std::move(listener)), wake_(std::move(wake)), thread_([this] { run(); }) {}
  ~Server() {
    set([this] { ends_ = true; });
    thread_.join();
  }
  // From now on those who ask are given this file, which the server owns.
  void give(Descriptor file) {
    set([&] { file_ = std::move(file); });
  }
  // Tells those who wait what went wrong.
  void fail(const std::string& words) {
    set([&] { words_ = words.substr(0, kMaxWords); });
  }

 private:
  template <class Change>
  void set(const Change& change) {
    const std::lock_guard lock(mutex_);
    change();
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  }

  void run() {
    bool ends = false;
    while (!ends) {
      pollfd sockets[] = {{listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      ::poll(sockets, 2, waiting_.empty() ? -1 : kBeatMs);
      uint64_t ignored = 0;
      [[maybe_unused]] const ssize_t read = ::read(wake_.get(), &ignored, sizeof(ignored));
      while (true) {
        Descriptor client(
            ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!client && errno != EAGAIN)  // there are no descriptors: do not try without end
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (!client) break;
        if (is_own(client.get())) waiting_.push_back(std::move(client));
      }
      const std::lock_guard lock(mutex_);
      answer();
      ends = ends_;
    }
  }

  void answer() {
    if (file_) {
      for (const Descriptor& client : waiting_) send_sign(client.get(), kReady, file_.get());
    } else if (words_) {
      for (const Descriptor& client : waiting_) {
        send_sign(client.get(), kFailed);
        ::send(client.get(), words_->data(), words_->size(), MSG_NOSIGNAL);
      }
    } else {
      std::erase_if(waiting_, [](const Descriptor& c) { return !send_sign(c.get(), kBusy); });
      return;
    }
    waiting_.clear();
  }

  std::mutex mutex_;
  std::vector<Descriptor> waiting_;
  Descriptor listener_, wake_, file_;
  std::optional<std::string> words_;
  bool ends_ = false;
  std::thread thread_;
};

// Memory of a sealed file, which nobody can change or shorten any more. Its first piece is the key.
class MappedMemory final : public HostMemory {
 public:
  // `server` answers for this memory as long as it lives; null: another process does. Throws
  // std::runtime_error unless the file is sealed and holds the pieces of this key.
  MappedMemory(int file, const std::string& key, std::unique_ptr<Server> server)
      : server_(std::move(server)) {
    struct stat status {};
    const int seals = ::fcntl(file, F_GET_SEALS);  // the kernel may add that against execution
    if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(file, &status) != 0)
      throw std::runtime_error("its memory is not sealed");
    size_ = static_cast<std::size_t>(status.st_size);
    memory_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
    if (memory_ == MAP_FAILED) throw std::runtime_error("mmap: " + words_of(errno));
    if (find_pieces() && begins_with(key)) return;
    ::munmap(memory_, size_);
    throw std::runtime_error("its memory is that of other data");
  }
  ~MappedMemory() override { ::munmap(memory_, size_); }

 private:
  bool find_pieces() {
    constexpr std::size_t kWord = sizeof(uint64_t);
    const auto* const bytes = static_cast<const std::byte*>(memory_);
    const auto word = [&](std::size_t place) {
      uint64_t value = 0;
      std::memcpy(&value, bytes + place, kWord);
      return value;
    };
    if (size_ < kWord || size_ % kWord != 0) return false;
    const uint64_t count = word(size_ - kWord), most = size_ / kWord - 1;
    if (count > most) return false;
    const std::size_t end = size_ - (count + 1) * kWord;
    std::size_t begin = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t piece = word(end + i * kWord);
      if (begin > end || piece > end - begin) return false;
      pieces_.emplace_back(bytes + begin, piece);
      begin += (piece + kAlignment - 1) / kAlignment * kAlignment;
    }
    return true;
  }

  // Takes the key away.
  bool begins_with(const std::string& key) {
    if (pieces_.empty()) return false;
    const auto found = numbers<char>(0);
    pieces_.erase(pieces_.begin());
    return std::equal(found.begin(), found.end(), key.begin(), key.end());
  }

  std::unique_ptr<Server> server_;
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

SharedMemory map_file(int file, const std::string& key, std::unique_ptr<Server> server,
                      const HostMemory::Fill& fill) {
  try {
    return {std::make_shared<MappedMemory>(file, key, std::move(server)), {}};
  } catch (const std::runtime_error& error) {
    return {fill_memory(fill), error.what()};
  }
}

// What prevents that a file of memory is written at all; "": nothing.
std::string obstacle(int file) {
  if (file < 0) return "memfd_create: " + words_of(errno);
  rlimit most{};  // a larger file would bring the signal SIGXFSZ
  if (::getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur != RLIM_INFINITY)
    return "the size of files is limited (ulimit -f)";
  return {};
}

// Fills a file of memory and answers others who ask for it over `listener`. `wake` is an eventfd.
SharedMemory fill_for_all(const std::string& key, const HostMemory::Fill& fill, Descriptor file,
                          Descriptor wake, Descriptor listener) {
  std::unique_ptr<Server> server;
  try {
    server = std::make_unique<Server>(std::move(listener), std::move(wake));
  } catch (const std::system_error& error) {  // there can be no more threads
    return {fill_memory(fill), error.what()};
  }
  try {
    FilePieces pieces(file.get());
    pieces.begin(key.size());
    pieces.add(key.data(), key.size());
    fill(pieces);
    pieces.end();
  } catch (const DataError& error) {
    server->fail(error.what());
    throw;
  }
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    const std::string reason = "F_ADD_SEALS: " + words_of(errno);
    server.reset();  // nobody waits while this process fills its own
    return {fill_memory(fill), reason};
  }
  const int number = file.get();
  server->give(std::move(file));
  return map_file(number, key, std::move(server), fill);
}

// An answer says how the process that fills the memory has ended its work.
struct Answer {
  bool gone = false;                       // it has ended: ask again
  std::string why_not = {};                // it cannot be used
  std::optional<std::string> failed = {};  // it could not fill the memory
  Descriptor file = {};
};

// Receives what follows kFailed.
std::string receive_words(int socket) {
  std::string words(kMaxWords, '\0');
  std::size_t size = 0;
  pollfd ready{socket, POLLIN, 0};
  while (size < words.size() && ::poll(&ready, 1, kBeatMs) > 0) {
    const ssize_t count = ::recv(socket, words.data() + size, words.size() - size, 0);
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
  }
  words.resize(size);
  return words;
}

// The descriptor of a message; none if it has none.
Descriptor descriptor_of(msghdr& message) {
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
    return Descriptor();
  int file = -1;
  std::memcpy(&file, CMSG_DATA(header), sizeof(int));
  return Descriptor(file);
}

// Waits for the memory of the process at the other end.
Answer await(int socket, double patience_s) {
  pollfd ready{socket, POLLIN, 0};
  while (true) {
    const int found = ::poll(&ready, 1, static_cast<int>(patience_s * 1000));
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) return {.why_not = "the process that reads them does not answer"};
    char sign = 0;
    iovec bytes{&sign, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) return {.gone = true};
    Descriptor file = descriptor_of(message);
    if (sign == kBusy) continue;
    if (sign == kFailed) return {.failed = receive_words(socket)};
    if (sign == kReady && file) return {.file = std::move(file)};
    return {.why_not = "another program has the name of its socket"};
  }
}

}  // namespace

std::shared_ptr<const HostMemory> fill_memory(const HostMemory::Fill& fill) {
  return std::make_shared<OwnMemory>(fill);
}

// Asks until another process has answered, or this one fills the memory.
SharedMemory share_memory(const std::string& key, const HostMemory::Fill& fill, double patience_s) {
  const sockaddr_un address = address_of(key);
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  constexpr int kMostTimes = 1000;
  constexpr int kBacklog = 4096;
  // Nobody is to find a name behind which nothing can be had.
  Descriptor file(::memfd_create("runtime data", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  std::string reason = obstacle(file.get());
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (reason.empty() && !wake) reason = "eventfd: " + words_of(errno);
  if (!reason.empty()) return {fill_memory(fill), reason};
  for (int i = 0; i < kMostTimes; ++i) {
    Descriptor socket = new_socket();
    if (!socket) return {fill_memory(fill), "socket: " + words_of(errno)};
    if (::bind(socket.get(), name, sizeof(address)) == 0) {
      if (::listen(socket.get(), kBacklog) == 0)
        return fill_for_all(key, fill, std::move(file), std::move(wake), std::move(socket));
      reason = "listen: " + words_of(errno);
      socket = Descriptor();
      return {fill_memory(fill), reason};
    }
    if (errno != EADDRINUSE) return {fill_memory(fill), "bind: " + words_of(errno)};
    if (::connect(socket.get(), name, sizeof(address)) != 0) {
      std::this_thread::sleep_for(
          std::chrono::milliseconds(5));  // it is not listening yet, or ends
      continue;
    }
    if (!is_own(socket.get()))
      return {fill_memory(fill), "another user has the name of its socket"};
    Answer answer = await(socket.get(), patience_s);
    if (answer.failed) throw DataError(*answer.failed);
    if (!answer.why_not.empty()) return {fill_memory(fill), answer.why_not};
    if (!answer.gone) return map_file(answer.file.get(), key, nullptr, fill);
  }
  return {fill_memory(fill), "its socket does not answer"};
}

}  // namespace runtime::system
