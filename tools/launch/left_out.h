// The machines that a job goes on without, until they can be used again.
#ifndef TOOLS_LAUNCH_LEFT_OUT_H_
#define TOOLS_LAUNCH_LEFT_OUT_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/child.h"
#include "tools/launch/hosts.h"

namespace tools::launch {

struct LeftOut {
  Host host;
  size_t place = 0;      // among the machines of the job, when it was left out
  bool is_back = false;  // it is taken in with the next start of the ranks
};

// Asks one machine after the other whether it has the program. One thread at a time.
class Inquiry {
 public:
  // Returns the words that run the program on the host and let it print its version.
  using WordsFor = std::function<std::vector<std::string>(const Host& host)>;

  // Takes the answer to the question of the call before, and asks the next machine if there was
  // none, without waiting: a machine that has not answered until the next call does not count.
  // Returns whether a machine has answered with this program's version; it is marked as back.
  bool ask(std::vector<LeftOut>& machines, const WordsFor& words_for);

 private:
  std::optional<plugins::host::Child> question_;
  size_t asked_ = 0;  // the number of the machine
};

// Puts the machines that are back into their places.
void take_back(std::vector<LeftOut>& machines, std::vector<Host>& hosts);

}  // namespace tools::launch

#endif  // TOOLS_LAUNCH_LEFT_OUT_H_
