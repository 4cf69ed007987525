// The board of the ranks in the job's key-value store, and the launcher's, where there is one.
#ifndef RUNTIME_LAUNCH_JOB_BOARD_H_
#define RUNTIME_LAUNCH_JOB_BOARD_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/exec/job_board.h"
#include "runtime/launch/store.h"

namespace runtime::launch {

// Notes at "<prefix>board/<rank>", and "<prefix>board/alarm" once one of them is no kDone. `prefix`
// is new for each attempt to run the job. On `launcher` only the launcher posts, about ranks that
// have died; what it says of a rank counts, unless the rank itself has said by which error it ends.
// The store must outlive it.
class StoreJobBoard : public exec::JobBoard {
 public:
  StoreJobBoard(Store& store, int world_size, const std::string& prefix = "",
                std::shared_ptr<exec::JobBoard> launcher = nullptr)
      : store_(store),
        world_size_(world_size),
        prefix_(prefix + "board/"),
        launcher_(std::move(launcher)) {}
  int world_size() const override { return world_size_; }
  void post(const exec::Note& note) override;
  bool alarm() override {
    return store_.try_get(prefix_ + "alarm") || (launcher_ != nullptr && launcher_->alarm());
  }
  std::vector<exec::Note> notes() override;

 private:
  Store& store_;
  const int world_size_;
  const std::string prefix_;
  const std::shared_ptr<exec::JobBoard> launcher_;
};

// The launcher's board in the rendezvous folder that it has made for one attempt.
std::shared_ptr<exec::JobBoard> launcher_board(const std::string& folder, int world_size);

// A store that fails, naming the rank, once the launcher knows that one has died or given up: what
// waits for a key need not wait for a rank that is gone.
class AttendedStore : public Store {
 public:
  AttendedStore(std::shared_ptr<Store> store, std::shared_ptr<exec::JobBoard> launcher)
      : store_(std::move(store)), launcher_(std::move(launcher)) {}
  void set(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::optional<std::string> try_get(const std::string& key) override;
  std::string description() const override { return store_->description(); }
  bool fresh() const override { return store_->fresh(); }

 private:
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<exec::JobBoard> launcher_;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_JOB_BOARD_H_
