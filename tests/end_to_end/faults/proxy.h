// A TCP proxy between two machines of a Network that cannot reach each other: late, or broken.
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

  // On `near[i]`, which is joined to one machine, it listens at the address of the other one, and
  // passes connections on from `near[1 - i]`. Machines use the ports above.
  struct Side {
    int machine;
    std::string address;  // of the machine at the other side
  };
  Proxy(const Network& network, Side one, Side other, std::chrono::milliseconds delay);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  void reset() { reset_ = true; }  // all connections, and those that will come
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
  bool pass(Pipe& pipe);  // false: its end
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
