// Measures candidates within a budget, and knows whether the machine was busy meanwhile.
#ifndef RUNTIME_EXEC_TUNER_H_
#define RUNTIME_EXEC_TUNER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/exec/contest.h"

namespace runtime::exec {

// Belongs to one thread. Equivalent to: torch.backends.cudnn.benchmark, Triton's autotuner.
class Tuner {
 public:
  // `limit` is the time of launches that are measured; `waited` tells for how long threads of this
  // process have waited for a core so far.
  Tuner(std::shared_ptr<plugins::host::Device> device, std::chrono::nanoseconds limit,
        std::function<std::chrono::nanoseconds()> waited);

  // Measures the candidates within the budget and returns what is known of each then. keys[i]
  // tells candidate i from all others; what was measured under its key before is not measured
  // again. Throws plugins::host::Error only if the device itself has failed. Allocates what the
  // operands take, and frees it.
  std::vector<Measurement> measure(const Subject& subject,
                                   const std::vector<graph::Candidate>& candidates,
                                   const std::vector<std::string>& keys);

  // Whether threads of this process often had no core while candidates were measured, or the times
  // of one and the same candidate were far apart, so that another decision may be right when the
  // machine has nothing else to do.
  bool was_busy() const;
  // What the user should know, a sentence each.
  std::vector<std::string> notes() const;

 private:
  std::vector<Measurement> contest(const Subject& subject,
                                   const std::vector<graph::Candidate>& candidates);

  std::shared_ptr<plugins::host::Device> device_;
  plugins::host::Stream stream_;
  OperandNumbers numbers_;
  TuneBudget budget_;
  std::chrono::nanoseconds whole_limit_;
  std::function<std::chrono::nanoseconds()> waited_;
  std::chrono::nanoseconds waited_here_{0}, took_{0};  // while candidates were measured
  double best_ns_ = 0;           // of the fastest candidates of all operations together
  std::vector<double> spreads_;  // of candidates, as shares of their times
  std::vector<std::string> obstacles_;
  std::unordered_map<std::string, Measurement> known_;  // by key
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_TUNER_H_
