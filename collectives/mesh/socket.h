// A class that owns a socket and closes it in its destructor.
#ifndef COLLECTIVES_MESH_SOCKET_H_
#define COLLECTIVES_MESH_SOCKET_H_

#include <unistd.h>

#include <utility>

namespace collectives::mesh {

// Owns a file descriptor and closes it; -1 means none. Movable.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int file) : file_(file) {}
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~Socket() {
    if (file_ >= 0) ::close(file_);
  }
  int get() const { return file_; }
  explicit operator bool() const { return file_ >= 0; }

 private:
  int file_ = -1;
};

}  // namespace collectives::mesh

#endif  // COLLECTIVES_MESH_SOCKET_H_
