// Messages between ranks beside their collectives: the receiver need not wait for them.
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
#include "runtime/watch/watchdog.h"

namespace runtime::exec {

// The caller decides what the fields mean.
struct Message {
  int64_t kind = 0;  // >= 0
  int64_t number = 0;
  int64_t count = 0;
  double value = 0;
  std::vector<std::byte> payload = {};
};

// A thread of its own makes all calls of a communicator that is used for nothing else: it sends,
// keeps a receive posted from every other rank, and passes on what arrives. While nothing happens
// it sleeps, for longer the longer it is idle, so a message is noticed after a fraction of a
// millisecond. Messages between two ranks keep their order. Equivalent to: MPI_Isend and MPI_Irecv
// with a progress thread.
class Messenger {
 public:
  using Receiver = std::function<void(int from, Message message)>;

  // `receiver` is called in the messenger's thread and may send; an exception from it becomes the
  // error that check() throws. A payload above `largest_payload` bytes is a CommunicationError.
  // Watchdog and what `receiver` uses must outlive this object.
  Messenger(std::shared_ptr<plugins::host::Communicator> communicator, int rank, int world_size,
            uint64_t largest_payload, watch::Watchdog& watchdog, Receiver receiver);
  // Aborts the communicator unless close() has succeeded.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  // Queues a message, also to this rank itself. Any thread; does not block.
  void send(int to, Message message);
  // Throws the error that has stopped the messenger, if there is one.
  void check();
  // Every rank calls this when it will send nothing more, answers included. Returns when all ranks
  // have called it and every message has arrived.
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
    plugins::host::Work works[2];  // of header and payload
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
  void receive(int from, void* data, uint64_t bytes);
  bool finished();

  const std::shared_ptr<plugins::host::Communicator> communicator_;
  const int rank_;
  const uint64_t largest_payload_;
  watch::Watchdog& watchdog_;
  const Receiver receiver_;
  std::vector<Incoming> incoming_;  // by rank; used by the thread only, as is outgoing_
  std::list<Outgoing> outgoing_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable wake_, ended_;
  std::vector<std::pair<int, Message>> outbox_;
  std::exception_ptr failure_;
  bool stop_ = false, closing_ = false, over_ = false;
  std::thread thread_;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_MESSENGER_H_
