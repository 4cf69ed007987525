// A file descriptor that is closed by its destructor.
#ifndef PLUGINS_HOST_DESCRIPTOR_H_
#define PLUGINS_HOST_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace plugins::host {

// Owns a file descriptor. Movable; -1 means none.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  // Closes the descriptor, if there is one.
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  // Gives the descriptor to the caller, who closes it.
  int release() { return std::exchange(number_, -1); }
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_DESCRIPTOR_H_
