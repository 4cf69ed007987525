// The processes below this one, as /proc shows them.
#ifndef RUNTIME_LAUNCH_PROCESS_TREE_H_
#define RUNTIME_LAUNCH_PROCESS_TREE_H_

#include <sys/types.h>

#include <set>
#include <vector>

namespace runtime::launch {

pid_t parent_of(pid_t process);  // 0 if there is no such process
bool is_stopped(pid_t process);  // by SIGSTOP or a similar signal

// While this object exists, processes below this one that lose their parent become its children, so
// that none is overlooked, such as ranks of an mpiexec that was killed or a rank's own children.
// Children that existed before are left alone (a shell that was replaced by this program may have
// had some). At most one object may exist, and the thread that makes it must outlive the processes.
class ProcessTree {
 public:
  ProcessTree();
  ~ProcessTree();
  ProcessTree(const ProcessTree&) = delete;
  ProcessTree& operator=(const ProcessTree&) = delete;

  std::vector<pid_t> processes() const;
  void send(int signal) const;
  // Sends to the processes that run this very program, which are the ranks. Returns false if there
  // are none.
  bool send_to_ranks(int signal) const;
  // Ends all processes with SIGKILL, which no process can refuse, and waits for them.
  void end() const;

 private:
  std::set<pid_t> others_;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_PROCESS_TREE_H_
