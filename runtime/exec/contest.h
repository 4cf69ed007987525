// Measures the candidates of one operation against each other.
#ifndef RUNTIME_EXEC_CONTEST_H_
#define RUNTIME_EXEC_CONTEST_H_

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/exec/launch_times.h"
#include "runtime/exec/operand_buffers.h"
#include "runtime/exec/operand_numbers.h"
#include "runtime/exec/timed_kernel.h"
#include "runtime/graph/target.h"

namespace runtime::exec {

// An operation whose candidates are measured.
struct Subject {
  plugins::host::Operation operation;
  // The operation whose saved data a backward operation reads: it runs once before.
  std::optional<plugins::host::Operation> forward = std::nullopt;
};

// Puts layouts into an operation, in the order of its operands.
void set_layouts(plugins::host::Operation& operation, const std::vector<uint64_t>& inputs,
                 const std::vector<uint64_t>& outputs);
// What the device offers for an operation in its layouts, with all of its post-operations; empty if
// it refuses the operation.
std::vector<graph::Candidate> offered_candidates(plugins::host::Device& device,
                                                 const plugins::host::Operation& operation);

// What measuring a candidate has shown.
struct Measurement {
  // kUnknown: it was not measured, because there was no time or memory, or because the saved data
  // could not be made. kFailed: it cannot be used.
  enum class Outcome { kUnknown, kTimes, kFailed } outcome = Outcome::kUnknown;
  LaunchTimes times = {};
};

// The time that measuring may still spend.
struct TuneBudget {
  bool is_spent() const { return ns <= 0 || std::chrono::steady_clock::now() >= end; }

  double ns = 0;                              // nanoseconds of launches that are measured
  std::chrono::steady_clock::time_point end;  // with the loading of code and all else
};

// Made for one operation. One thread uses it.
class Contest {
 public:
  // All must outlive the contest. The stream is replaced where work on it has failed.
  Contest(plugins::host::Device& device, plugins::host::Stream& stream, OperandNumbers& numbers,
          const Subject& subject, const std::vector<graph::Candidate>& candidates);
  ~Contest();
  Contest(const Contest&) = delete;
  Contest& operator=(const Contest&) = delete;

  // Makes kernels and operands, launches each candidate once without counting it, then measures all
  // of them, and again those that are close, unless the fastest takes less than `worthwhile_ns`. A
  // candidate that takes far longer than the best one so far is not launched again. Returns what is
  // known of each candidate when the budget is spent. Throws plugins::host::Error if memory is
  // missing, or the device has failed.
  std::vector<Measurement> run(TuneBudget& budget, double worthwhile_ns);
  // The shortest time, in nanoseconds; infinite if nothing was measured.
  double best_ns() const { return best_; }
  // Why saved data could not be made; empty if they were.
  const std::string& obstacle() const { return obstacle_; }

 private:
  struct Entrant;
  struct Forward;

  void prepare(size_t i);
  void need(const OperandNames& names, const graph::Candidate& candidate);
  Forward* forward_for(const plugins::host::Operation& backward);
  void make_operands();
  void fill_inputs(const plugins::host::Operation& operation, const OperandNames& names);
  void save(Forward& forward);
  LaunchAddresses addresses(const OperandNames& names, const rt_plan_info& info) const;
  std::vector<size_t> order() const;
  void measure(size_t i, TuneBudget& budget);
  bool measure_batch(size_t i, TuneBudget& budget);
  bool works(const std::function<void()>& call);

  plugins::host::Device& device_;
  plugins::host::Stream& stream_;
  OperandNumbers& numbers_;
  const Subject& subject_;
  const std::vector<graph::Candidate>& candidates_;
  OperandBuffers buffers_;
  StreamTimer timer_;
  std::map<std::string, std::unique_ptr<Forward>> forwards_;  // by their layouts
  std::deque<Entrant> entrants_;                              // by candidate
  std::vector<Measurement> results_;
  double best_;  // the shortest time so far, in nanoseconds
  std::string obstacle_;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_CONTEST_H_
