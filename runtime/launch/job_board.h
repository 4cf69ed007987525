// The board of the ranks in the job's key-value store.
#ifndef RUNTIME_LAUNCH_JOB_BOARD_H_
#define RUNTIME_LAUNCH_JOB_BOARD_H_

#include <string>
#include <vector>

#include "runtime/exec/job_board.h"
#include "runtime/launch/store.h"

namespace runtime::launch {

// Notes at "<prefix>board/<rank>", and "<prefix>board/alarm" once one of them is no kDone. `prefix`
// is new for each attempt to run the job. The store must outlive it.
class StoreJobBoard : public exec::JobBoard {
 public:
  StoreJobBoard(Store& store, int world_size, const std::string& prefix = "")
      : store_(store), world_size_(world_size), prefix_(prefix + "board/") {}
  int world_size() const override { return world_size_; }
  void post(const exec::Note& note) override;
  bool alarm() override { return store_.try_get(prefix_ + "alarm").has_value(); }
  std::vector<exec::Note> notes() override;

 private:
  Store& store_;
  const int world_size_;
  const std::string prefix_;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_JOB_BOARD_H_
