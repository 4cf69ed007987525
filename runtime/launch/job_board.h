// Where ranks post why they leave (watch/job_board.h): a board in the job's key-value store, and
// one in the rendezvous folder, on which the launcher posts which ranks have died.
#ifndef RUNTIME_LAUNCH_JOB_BOARD_H_
#define RUNTIME_LAUNCH_JOB_BOARD_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/launch/store.h"
#include "runtime/watch/job_board.h"

namespace runtime::launch {

// A job board in a key-value store. The note of a rank, which says why the rank leaves, has the key
// "<prefix>board/<rank>". The key "<prefix>board/alarm" exists once a rank leaves before its work
// is done. `prefix` is new for each attempt to run the job. On the board `launcher` only the
// launcher posts notes, about ranks that have died. Its note about a rank takes precedence, unless
// the rank itself has named the error that it ends with. The store must outlive the board.
class StoreJobBoard : public watch::JobBoard {
 public:
  StoreJobBoard(Store& store, int world_size, const std::string& prefix = "",
                std::shared_ptr<watch::JobBoard> launcher = nullptr)
      : store_(store),
        world_size_(world_size),
        prefix_(prefix + "board/"),
        launcher_(std::move(launcher)) {}
  int world_size() const override { return world_size_; }
  void post(const watch::Note& note) override;
  bool alarm() override {
    return store_.try_get(prefix_ + "alarm") || (launcher_ != nullptr && launcher_->alarm());
  }
  std::unique_ptr<watch::Bell> alarm_bell() override;
  std::vector<watch::Note> notes() override;

 private:
  Store& store_;
  const int world_size_;
  const std::string prefix_;
  const std::shared_ptr<watch::JobBoard> launcher_;
};

// Returns the launcher's board in the rendezvous folder that the launcher has made for one attempt.
std::shared_ptr<watch::JobBoard> launcher_board(const std::string& folder, int world_size);

// A store in which try_get() and wait_for() throw CommunicationError that names the rank once the
// launcher knows that a rank has died or given up. A rank that waits for a key then does not wait
// for a rank that is gone.
class AttendedStore : public Store {
 public:
  AttendedStore(std::shared_ptr<Store> store, std::shared_ptr<watch::JobBoard> launcher)
      : store_(std::move(store)), launcher_(std::move(launcher)) {}
  void set(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::optional<std::string> try_get(const std::string& key) override;
  std::optional<std::string> wait_for(const std::string& key,
                                      std::chrono::nanoseconds at_most) override;
  std::string description() const override { return store_->description(); }
  bool fresh() const override { return store_->fresh(); }

 private:
  void look_at_launcher() const;

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<watch::JobBoard> launcher_;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_JOB_BOARD_H_
