// Who is late? Asked when a call takes long, and answered by the I/O threads of the others, even
// while their ranks compute; a rank that is stopped, or behind a dead link, does not answer.
#ifndef COLLECTIVES_GLOO_ROLL_CALL_H_
#define COLLECTIVES_GLOO_ROLL_CALL_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "wires.h"

namespace collectives::gloo {

// By the thread that calls the communicator.
class RollCall {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit RollCall(Wires& wires) : wires_(wires) {}

  // This rank has come to one more collective.
  void came() { wires_.set_progress(++mine_); }

  // When go_on() has something to do.
  Time next() const { return next_; }
  // Asks all others, or looks at what they have answered.
  void go_on();

  // As of the last question whose time is over: "rank 2 does not answer", "rank 3 has come to 5
  // collectives of 6"; "" if all have come. `names` as in Communicator.
  std::string late(const std::vector<int>& names) const;
  // The first rank that did not answer it.
  std::optional<int> silent() const;

 private:
  // The others have that long to answer, and are asked again so long after the question.
  static constexpr std::chrono::milliseconds kAnswer{200}, kAgain{500};

  Wires& wires_;
  int64_t mine_ = 0;  // collectives
  bool asked_ = false;
  Time next_{};
  struct Late {
    int rank;
    std::optional<int64_t> came;  // nullopt: it did not answer
  };
  std::vector<Late> late_;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_ROLL_CALL_H_
