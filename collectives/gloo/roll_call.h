// Finds out which ranks are late. When a call takes long, this rank asks the others how far they
// are. Their I/O threads answer, even while their ranks compute; a rank that is stopped or behind a
// dead link does not answer.
#ifndef COLLECTIVES_GLOO_ROLL_CALL_H_
#define COLLECTIVES_GLOO_ROLL_CALL_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "wires.h"

namespace collectives::gloo {

// Used only by the thread that calls the communicator.
class RollCall {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit RollCall(Wires& wires) : wires_(wires) {}

  // Counts one more collective that this rank has called. `shared`: an all-reduce in shared memory.
  void came(bool shared);

  // The time at which go_on() has something to do.
  Time next() const { return next_; }
  // Asks all other ranks, or evaluates their answers.
  void go_on();

  // The result of the last completed question: "rank 2 does not answer", or "rank 3 has come to 5
  // collectives of 6" if it has called 5 of the 6 that this rank has called; "" if no rank is late.
  // `names[r]` is the number of rank r in messages.
  std::string late(const std::vector<int>& names) const;
  // The first rank that did not answer the last completed question.
  std::optional<int> silent() const;
  // A rank that has called as many collectives as this one, but not as many in shared memory: the
  // two wait for each other in different places.
  std::optional<int> disagrees() const { return disagrees_; }

 private:
  // An answer is the number of collectives times this number, and the number of those in shared
  // memory.
  static constexpr int64_t kShared = 1 << 20;
  // The time that the others have to answer, and the time from one question to the next.
  static constexpr std::chrono::milliseconds kAnswer{200}, kAgain{500};

  Wires& wires_;
  int64_t mine_ = 0;    // collectives that this rank has called
  int64_t shared_ = 0;  // those in shared memory, modulo kShared
  std::optional<int> disagrees_;
  bool asked_ = false;
  Time next_{};
  struct Late {
    int rank;
    std::optional<int64_t> came;  // nullopt: no answer
  };
  std::vector<Late> late_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_ROLL_CALL_H_
