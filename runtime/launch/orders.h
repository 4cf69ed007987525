// A launcher sends orders to the launchers that it has started on other machines.
#ifndef RUNTIME_LAUNCH_ORDERS_H_
#define RUNTIME_LAUNCH_ORDERS_H_

#include <string>
#include <string_view>
#include <vector>

namespace runtime::launch {

// The exit code of a launcher that another one has started: one of its own ranks was lost, not one
// elsewhere.
inline constexpr int kLostOwnRank = 32;

// An order is a line. kSignal ("signal <number>") is what a signal to the launcher would be, and
// SIGKILL ends its ranks at once. The others ("lost <rank> <what has happened>", "told ...") are
// about a rank that another launcher has started: it is gone, or has ended because it was told that
// yet another one is gone. The ranks here end then.
struct Order {
  enum class Kind { kSignal, kLost, kTold } kind = Kind::kSignal;
  int number = 0;  // a signal, or a rank
  std::string text = {};

  bool operator==(const Order&) const = default;
};

// Returns the line with its end; an end of line in the text becomes a space.
std::string line_of(const Order& order);

// Reads orders from a descriptor. Other lines are left out.
class Orders {
 public:
  explicit Orders(int fd) : fd_(fd) {}  // -1: there are none
  int fd() const { return fd_; }        // for poll(); -1 at the end
  // Returns those that have come; does not wait if poll() says that there is something to read.
  std::vector<Order> read();

 private:
  int fd_;
  std::string begun_;  // the beginning of a line
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_ORDERS_H_
