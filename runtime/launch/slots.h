// The places for ranks on this machine, each with a device, of which a job may lose some.
#ifndef RUNTIME_LAUNCH_SLOTS_H_
#define RUNTIME_LAUNCH_SLOTS_H_

#include <vector>

namespace runtime::launch {

// The slots of a job that goes on with fewer ranks. Slot s is the place of rank s while none is
// left out; then the ranks take the others in their order.
class Slots {
 public:
  // `all`: the number of slots. `least`: the ranks with which the job may go on; 0: all of them.
  // `replica`: the ranks that hold one replica of the model together; the number of ranks is a
  // multiple of it, so that slots may stay empty.
  Slots(int all, int least, int replica);

  // The slot of each rank.
  const std::vector<int>& of_ranks() const { return used_; }
  int ranks() const { return static_cast<int>(used_.size()); }
  bool complete() const { return left_out_.empty(); }
  const std::vector<int>& left_out() const { return left_out_; }

  // Leaves the slot of a rank out. Returns false, and changes nothing, if too few ranks would be
  // left.
  bool leave_out(int rank);
  // Takes all slots back in.
  void take_back();

 private:
  void fill(std::vector<int> present);

  const int all_, least_, replica_;
  std::vector<int> present_;   // not left out, in ascending order
  std::vector<int> used_;      // the first of them, as many as make whole replicas
  std::vector<int> left_out_;  // in the order in which they were lost
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_SLOTS_H_
