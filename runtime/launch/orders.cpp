// Writes and reads orders as words on a line.
#include "runtime/launch/orders.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>

namespace runtime::launch {
namespace {

// In the order of Order::Kind.
constexpr std::string_view kWords[] = {"signal", "lost", "told"};
static_assert(std::size(kWords) == static_cast<size_t>(Order::Kind::kTold) + 1);

std::optional<Order> read_line(const std::string& line) {
  std::istringstream in(line);
  std::string word;
  Order order;
  if (!(in >> word >> order.number)) return std::nullopt;
  const auto* const found = std::ranges::find(kWords, word);
  if (found == std::end(kWords)) return std::nullopt;
  order.kind = static_cast<Order::Kind>(found - std::begin(kWords));
  std::getline(in >> std::ws, order.text);
  return order;
}

}  // namespace

std::string line_of(const Order& order) {
  std::string line = std::string(kWords[static_cast<size_t>(order.kind)]) + " " +
                     std::to_string(order.number) + " " + order.text;
  std::ranges::replace(line, '\n', ' ');
  return line + "\n";
}

std::vector<Order> Orders::read() {
  char buffer[4096];
  const ssize_t bytes = ::read(fd_, buffer, sizeof buffer);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (bytes <= 0) {
    fd_ = -1;
    return {};
  }
  begun_.append(buffer, static_cast<size_t>(bytes));
  std::vector<Order> orders;
  for (size_t end = 0; (end = begun_.find('\n')) != begun_.npos; begun_.erase(0, end + 1))
    if (auto order = read_line(begun_.substr(0, end))) orders.push_back(std::move(*order));
  return orders;
}

}  // namespace runtime::launch
