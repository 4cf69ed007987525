// A TCP proxy between two machines of a Network that cannot reach each other directly. It can delay
// or reset connections.
#ifndef TESTS_END_TO_END_FAULTS_PROXY_H_
#define TESTS_END_TO_END_FAULTS_PROXY_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/end_to_end/faults/network.h"

namespace runtime::faults {

class Proxy {
 public:
  static constexpr int kFirstPort = 40000, kLastPort = 40015;
  using Clock = std::chrono::steady_clock;

  // One side of the proxy: `machine` is linked to one of the two ranks' machines, and there the
  // proxy listens at the address of the other one. Ranks may use the ports above only.
  struct Side {
    int machine;
    std::string address;  // of the machine on the other side
  };
  Proxy(const Network& network, Side one, Side other, std::chrono::milliseconds delay);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  void reset() { reset_ = true; }  // all present and future connections
  int connections() const { return connections_; }

 private:
  struct Door {
    int fd, port, side;
  };
  struct Pending {
    Clock::time_point due;
    std::string bytes;
  };
  struct Pipe {
    int from, to;
    std::deque<Pending> pending;
  };

  void serve();
  void open_doors(int side);
  void accept(const Door& door);
  bool pass(Pipe& pipe);  // false at the end of the connection
  void close_all();

  const Network& network_;
  const Side sides_[2];
  const std::chrono::milliseconds delay_;
  std::vector<Door> doors_;
  std::list<Pipe> pipes_;
  std::atomic<bool> reset_ = false, stop_ = false, ready_ = false;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

}  // namespace runtime::faults

#endif  // TESTS_END_TO_END_FAULTS_PROXY_H_
