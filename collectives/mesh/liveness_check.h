// Finds out which ranks are late. When a call takes long, this rank asks the others how far they
// are. Their I/O threads answer, even while their ranks compute; a rank that is stopped or behind a
// dead link does not answer.
#ifndef COLLECTIVES_MESH_LIVENESS_CHECK_H_
#define COLLECTIVES_MESH_LIVENESS_CHECK_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace collectives::mesh {

// The connections over which ranks ask each other.
class LivenessProbe {
 public:
  virtual ~LivenessProbe() = default;
  // Sets what this rank answers.
  virtual void set_progress(int64_t progress) = 0;
  // Asks another rank, and forgets its answer to the question before.
  virtual void ask(int peer) = 0;
  // The answer to the last question; nullopt: none yet.
  virtual std::optional<int64_t> answer(int peer) = 0;
};

// Every rank of a large job asks every other, so questions must not feed on themselves: a rank that
// has not answered is not asked again, and the longer a call takes, and the more ranks there are,
// the longer is the pause between two rounds.
//
// Used only by the thread that calls the communicator.
class LivenessCheck {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  LivenessCheck(LivenessProbe& probe, int rank, int size);

  // Counts one more collective that this rank has called. `shared`: a collective in shared memory.
  void count_call(bool shared);

  // The time at which go_on() has something to do.
  Time next() const { return next_; }
  // Begins a round, in which it asks the other ranks, or evaluates their answers.
  void go_on(Time now = std::chrono::steady_clock::now());

  // The result of the last completed round: "rank 2 does not answer", or "rank 3 has come to 5
  // collectives of 6" if it has called 5 of the 6 that this rank has called; "" if no rank is late.
  // Only the first of more than eight ranks are named. `names[r]` is the number of rank r in
  // messages.
  std::string late(const std::vector<int>& names) const;
  // The first rank that did not answer in the last completed round.
  std::optional<int> silent() const;
  // A rank that has called as many collectives as this one, but not as many in shared memory: the
  // two wait for each other in different places.
  std::optional<int> disagrees() const { return disagrees_; }

 private:
  struct Peer {
    bool asked = false;   // it has not answered yet, as far as this rank has looked
    bool before = false;  // it was asked in an earlier round
  };
  struct Late {
    int rank;
    std::optional<int64_t> came;  // nullopt: no answer
  };

  void ask();
  void evaluate();
  void judge(int peer, int64_t answer);

  LivenessProbe& probe_;
  const int rank_;
  // The time that the others have to answer, and the least time between two rounds.
  const Duration patience_, pause_;
  std::vector<Peer> peers_;
  int64_t mine_ = 0;    // collectives that this rank has called
  int64_t shared_ = 0;  // those in shared memory, modulo kShared
  std::optional<int> disagrees_;
  bool asked_ = false;         // a round is under way
  std::optional<Time> first_;  // when the first round of this collective began
  Time next_{};
  std::vector<Late> late_;
};

}  // namespace collectives::mesh

#endif  // COLLECTIVES_MESH_LIVENESS_CHECK_H_
