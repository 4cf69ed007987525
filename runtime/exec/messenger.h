// Messages between the ranks, beside their collectives: whoever gets one need not wait for it.
#ifndef RUNTIME_EXEC_MESSENGER_H_
#define RUNTIME_EXEC_MESSENGER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/host/communicator.h"
#include "runtime/exec/watchdog.h"

namespace runtime::exec {

// What it means is the caller's business.
struct Message {
  int64_t kind = 0;  // >= 0
  int64_t number = 0;
  int64_t count = 0;
  double value = 0;
  std::vector<std::byte> payload = {};
};

// A thread of its own makes all calls of a communicator that nobody else uses: it sends, has a
// receive posted from every other rank, and hands over what arrives. It sleeps while nothing
// happens, longer the longer nothing has: a message is noticed after a fraction of a millisecond.
// Messages between two ranks keep their order.
class Messenger {
 public:
  using Receiver = std::function<void(int from, Message message)>;

  // `receiver` is called in the messenger's thread and may send; what it throws becomes the failure
  // of check(). Payloads above `largest_payload` bytes are a CommunicationError.
  Messenger(std::shared_ptr<plugins::host::Communicator> communicator, int rank, int world_size,
            uint64_t largest_payload, Watchdog& watchdog, Receiver receiver);
  // Without close(): aborts the communicator.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  // Any thread; does not wait. To itself too.
  void send(int to, Message message);
  // Throws why it cannot go on, if that is so.
  void check();
  // Every rank calls it, when it will send nothing more, no answer either: returns when all have
  // and everything has arrived.
  void close();

 private:
  struct Header {
    int64_t kind, number, count;
    double value;
    uint64_t bytes;
  };
  struct Outgoing {
    Header header;
    std::vector<std::byte> payload;
    plugins::host::Work works[2];  // of each
  };
  struct Incoming {  // from one rank
    Header header{};
    std::vector<std::byte> payload;
    plugins::host::Work work;
    bool in_payload = false, closed = false;
  };

  void run();
  bool progress();
  bool start_sends();
  bool poll_sends();
  bool poll(int from);
  bool arrived(int from);
  void receive(int from, void* data, uint64_t bytes);
  bool finished();

  const std::shared_ptr<plugins::host::Communicator> communicator_;
  const int rank_;
  const uint64_t largest_payload_;
  Watchdog& watchdog_;
  const Receiver receiver_;
  std::vector<Incoming> incoming_;  // by rank; of the thread, as is outgoing_
  std::list<Outgoing> outgoing_;

  std::mutex mutex_;  // of the rest
  std::condition_variable wake_, ended_;
  std::vector<std::pair<int, Message>> outbox_;
  std::exception_ptr failure_;
  bool stop_ = false, closing_ = false, over_ = false;
  std::thread thread_;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_MESSENGER_H_
