// Runs of the `runtime` program as child processes, several at once.
#ifndef TOOLS_TRIALS_POOL_H_
#define TOOLS_TRIALS_POOL_H_

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tools::trials {

// One run that a Pool starts.
struct Task {
  std::string name;                    // for messages: "trial 3"
  std::vector<std::string> arguments;  // of the program, without its own name
  double timeout_s = 0;                // after which the run is ended; 0: never
  std::string log = {};              // file that its standard error output is appended to; "": none
  std::vector<int> processors = {};  // logical processors that it may run on; empty: all
  // Called with each line of its standard output; the run is ended when the result is false.
  std::function<bool(const std::string&)> on_line = {};
};

// How a run has ended.
struct Ended {
  int id = 0;         // what start() has returned
  int exit_code = 0;  // 128 + signal if a signal has ended it
  int signal = 0;     // the signal that has ended it, 0 if it has ended by itself
  bool timed_out = false;
  bool stopped = false;     // by Task::on_line or by a signal to this process
  double seconds = 0;       // from start to end
  std::string output;       // the last line of its standard output
  std::string error;        // its error message, else the last line of its standard error output
  uint64_t peak_bytes = 0;  // the most memory that one of its processes has had (ru_maxrss)
};

// A pool owns child processes. While it exists, SIGINT, SIGTERM and SIGHUP (where they are not
// ignored) are blocked in the calling thread and taken by wait(): the first one ends all runs with
// SIGTERM, so that they save themselves, and the second one kills them. When this process dies, the
// kernel sends SIGTERM to the runs. One thread, which must outlive the pool, may use it.
class Pool {
 public:
  // `program`: the executable `runtime`. Throws CommunicationError if the system has no file
  // descriptors left.
  explicit Pool(std::string program);
  ~Pool();  // kills the runs that have not ended
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Starts a run and returns its id, which no other run of this pool has. Throws what
  // launch::start() throws, and DataError if the log cannot be opened.
  int start(Task task);
  // Waits until a run has ended; nullopt if none is running.
  std::optional<Ended> wait();
  // The number of runs that have not ended.
  size_t running() const;
  // The first signal that this process has received, 0 if there was none.
  int signal() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Returns the path of the executable `runtime`: beside the calling program or, if that lies in
// <prefix>/libexec/runtime, in <prefix>/bin. Throws ConfigurationError if it is at neither place.
std::string runtime_program();

// Runs the program to its end and returns its standard output. Throws runtime::Error with the exit
// code and the message of the program if it fails.
std::string output_of(const std::vector<std::string>& arguments);

}  // namespace tools::trials

#endif  // TOOLS_TRIALS_POOL_H_
