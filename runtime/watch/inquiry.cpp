// One board and one link for each inquiry.
#include "runtime/watch/inquiry.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

namespace runtime::watch {
namespace {

// How often a rank looks whether it has waited for long.
constexpr std::chrono::milliseconds kGlance{50};

}  // namespace

// Tells stop() of a link for as long as there is one.
class Inquiry::Current {
 public:
  Current(Inquiry& inquiry, BoardLink& link) : inquiry_(inquiry) { set(&link); }
  ~Current() { set(nullptr); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  void set(BoardLink* link) {
    const std::lock_guard lock(inquiry_.mutex_);
    inquiry_.link_ = link;
    if (link != nullptr && inquiry_.stop_) link->give_up();
  }
  Inquiry& inquiry_;
};

Inquiry::Inquiry(JobBoard& board, int rank, Options options)
    : board_(board), rank_(rank), options_(std::move(options)), thread_([this] { run(); }) {}

void Inquiry::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    if (link_ != nullptr) link_->give_up();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Inquiry::run() {
  try {
    ask_again_and_again();
  } catch (const std::exception&) {  // most likely there is no memory, for words neither
  }
}

void Inquiry::ask_again_and_again() {
  auto limit = options_.first;
  for (int number = 0;; ++number, limit *= 2) {
    const std::unique_ptr<JobBoard> board = board_.inquiry(number);
    const std::optional<Incident> incident = wait(*board, limit);
    if (!incident) return;
    BoardLink link(*board);
    const Current current(*this, link);
    ask(link, *incident);
  }
}

// Waits until this rank or another one has waited for so long; nothing: the inquiries are over.
// When what this rank has waited for is over, the limit falls to the longest one.
std::optional<Incident> Inquiry::wait(JobBoard& board, std::chrono::nanoseconds& limit) {
  const std::unique_ptr<Bell> bell = board.alarm_bell();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (bell->rings()) return Incident();
    if (limit > options_.longest && !options_.late(options_.first))
      limit = std::max(options_.longest, options_.first);
    if (auto incident = options_.late(limit)) return incident;
    wake_.wait_for(lock, kGlance);
  }
  return std::nullopt;
}

void Inquiry::ask(BoardLink& link, const Incident& incident) {
  const Verdict verdict = options_.find_out(link, incident);
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || verdict.rank != rank_) return;
  }
  options_.say(verdict.text);
}

}  // namespace runtime::watch
