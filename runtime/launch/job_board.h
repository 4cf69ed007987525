// Where ranks post why they leave (watch/job_board.h): a board in the job's key-value store, and
// one in the rendezvous folder, on which the launcher posts which ranks have died.
#ifndef RUNTIME_LAUNCH_JOB_BOARD_H_
#define RUNTIME_LAUNCH_JOB_BOARD_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/launch/store.h"
#include "runtime/watch/job_board.h"

namespace runtime::launch {

// A job board in a key-value store. The note of a rank, which says why the rank leaves, has the key
// "<prefix>board/<rank>". The key "<prefix>board/alarm" exists once a rank leaves before its work
// is done, and "<prefix>board/verdict" once a rank has found out why. `prefix` is new for each
// attempt to run the job. On the board `launcher` only the launcher posts notes, about ranks of
// this machine that have died. Its note about a rank takes precedence, unless the rank itself has
// named the error that it ends with; with `several_hosts` it is passed on to the ranks on other
// machines. The store must outlive the board.
class StoreJobBoard : public watch::JobBoard {
 public:
  StoreJobBoard(Store& store, int world_size, const std::string& prefix = "",
                std::shared_ptr<watch::JobBoard> launcher = nullptr, bool several_hosts = false)
      : store_(store),
        world_size_(world_size),
        prefix_(prefix + "board/"),
        launcher_(std::move(launcher)),
        several_hosts_(several_hosts) {}
  int world_size() const override { return world_size_; }
  void post(const watch::Note& note) override;
  bool alarm() override {
    return store_.try_get(prefix_ + "alarm") || (launcher_ != nullptr && launcher_->alarm());
  }
  std::unique_ptr<watch::Bell> alarm_bell() override;
  void post(const watch::Verdict& verdict) override;
  std::optional<watch::Verdict> verdict() override;
  std::unique_ptr<watch::Bell> verdict_bell() override;
  std::unique_ptr<watch::JobBoard> inquiry(int number) override;
  void relay() override;
  std::vector<watch::Note> notes() override;

 protected:
  int most_asked_ = 256;  // whose notes are read at once

 private:
  std::string key_of(int rank) const { return prefix_ + std::to_string(rank); }
  void read_notes();
  std::optional<watch::Note> read_note(int rank);
  void add_what_the_launcher_says();

  Store& store_;
  const int world_size_;
  const std::string prefix_;
  const std::shared_ptr<watch::JobBoard> launcher_;
  const bool several_hosts_;
  std::string done_prefix_ =
      {};  // of an inquiry: that of the board with notes of ranks that are done
  std::atomic<bool> rung_ = false;  // the alarm
  std::mutex mutex_;
  std::map<int, watch::Note> notes_;  // that were read; guarded by mutex_, as is relayed_
  bool relayed_ = false;
  int next_ = 0;  // whose note is read next
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
  // Does not ring for the launcher.
  std::unique_ptr<watch::Bell> bell(const std::string& key) override { return store_->bell(key); }
  std::string description() const override { return store_->description(); }
  bool fresh() const override { return store_->fresh(); }

 private:
  void look_at_launcher() const;

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<watch::JobBoard> launcher_;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_JOB_BOARD_H_
