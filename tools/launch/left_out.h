// The machines that a job goes on without, until they can be used again.
#ifndef TOOLS_LAUNCH_LEFT_OUT_H_
#define TOOLS_LAUNCH_LEFT_OUT_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "plugins/host/descriptor.h"
#include "tools/launch/hosts.h"

namespace tools::launch {

struct LeftOut {
  Host host;
  int skipped = 0;       // questions to others before it is asked again
  bool is_back = false;  // it is taken in with the next start of the ranks
};

// Asks one machine after the other whether it has the program. One thread at a time.
class Inquiry {
 public:
  // Returns the words that run the program on the host and let it print its version.
  using WordsFor = std::function<std::vector<std::string>(const Host& host)>;

  Inquiry() = default;
  ~Inquiry() { end(); }
  Inquiry(const Inquiry&) = delete;
  Inquiry& operator=(const Inquiry&) = delete;

  // Takes the answer to the question of the call before, and asks the next machine if there was
  // none, without waiting: a machine that has not answered until the next call does not count.
  // Returns whether a machine has answered with this program's version; it is marked as back.
  bool ask(std::vector<LeftOut>& machines, const WordsFor& words_for);
  // Drops the question. Nobody else may have waited for its process if this process has started
  // others since.
  void end();

 private:
  bool says_version();

  plugins::host::Descriptor output_;
  pid_t process_ = -1;  // -1: there is no question
  size_t asked_ = 0;    // the number of the machine
};

// Puts a machine with the others that the job goes on without. One that was back before, and has
// failed again, is asked half as often each time.
void add_left_out(std::vector<LeftOut>& machines, const Host& host);
// Puts the machines that are back into their places.
void take_back(std::vector<LeftOut>& machines, std::vector<Host>& hosts);

}  // namespace tools::launch

#endif  // TOOLS_LAUNCH_LEFT_OUT_H_
