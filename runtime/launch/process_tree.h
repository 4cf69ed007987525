// The processes below this one, read from /proc.
#ifndef RUNTIME_LAUNCH_PROCESS_TREE_H_
#define RUNTIME_LAUNCH_PROCESS_TREE_H_

#include <sys/types.h>

#include <set>
#include <vector>

namespace runtime::launch {

pid_t parent_of(pid_t process);  // 0 if there is no such process
bool is_stopped(pid_t process);  // by SIGSTOP or its like

// While it lives, processes below this one that lose their parent become its children, so that none
// can be lost sight of: ranks of an mpiexec that was killed, a rank's own children. Children that
// were there before (a shell that has become this program had its own) are left alone.
// One at a time; the thread that makes it must outlive the processes.
class ProcessTree {
 public:
  ProcessTree();
  ~ProcessTree();
  ProcessTree(const ProcessTree&) = delete;
  ProcessTree& operator=(const ProcessTree&) = delete;

  std::vector<pid_t> processes() const;
  void send(int signal) const;
  // To the processes that run this very program, the ranks. False if there are none.
  bool send_to_ranks(int signal) const;
  // Ends all with SIGKILL, which no process can refuse, and waits for them.
  void end() const;

 private:
  std::set<pid_t> others_;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_PROCESS_TREE_H_
