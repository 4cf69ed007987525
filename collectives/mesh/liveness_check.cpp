// Asks late ranks in rounds that become rarer, and words which ranks are behind.
#include "collectives/mesh/liveness_check.h"

#include <algorithm>

#include "rt/sdk/error.h"

namespace collectives::mesh {

using std::chrono::milliseconds;

namespace {

// An answer is the number of collectives times this number, and the number of those in shared
// memory.
constexpr int64_t kShared = 1 << 20;
// The answers of so many ranks may take twice as long as those of few.
constexpr int kManyRanks = 32;
// The pause is at least this part of the time for which the call has been waited for, so that a
// message is never about something much older, and at most kLongestPause.
constexpr int kPartOfWait = 8;
constexpr milliseconds kLongestPause{10'000};
constexpr std::size_t kMostNamed = 8, kNamedOfMore = 3;

}  // namespace

LivenessCheck::LivenessCheck(LivenessProbe& probe, int rank, int size)
    : probe_(probe),
      rank_(rank),
      patience_(milliseconds(200) * (kManyRanks + size) / kManyRanks),
      pause_(milliseconds(300) * (kManyRanks + size) / kManyRanks),
      peers_(static_cast<std::size_t>(size)) {}

void LivenessCheck::count_call(bool shared) {
  ++mine_;
  if (shared) shared_ = (shared_ + 1) % kShared;
  first_.reset();
  probe_.set_progress(mine_ * kShared + shared_);
}

void LivenessCheck::go_on(Time now) {
  if (now < next_) return;
  asked_ = !asked_;
  if (asked_) {
    if (!first_) first_ = now;
    ask();
    next_ = now + patience_;
  } else {
    evaluate();
    const Duration waited = first_ ? now - *first_ : Duration(0);
    next_ = now + std::clamp<Duration>(waited / kPartOfWait, pause_,
                                       std::max<Duration>(pause_, kLongestPause));
  }
}

void LivenessCheck::ask() {
  // Each rank begins with the one behind it, so that not all ask the same one first.
  const auto size = static_cast<int>(peers_.size());
  for (int i = 1; i < size; ++i) {
    const int rank = (rank_ + i) % size;
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.before = peer.asked && !probe_.answer(rank);
    if (peer.before) continue;
    probe_.ask(rank);
    peer.asked = true;
  }
}

void LivenessCheck::evaluate() {
  late_.clear();
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    if (rank == rank_) continue;
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    const std::optional<int64_t> answer = probe_.answer(rank);
    if (!answer) {
      late_.push_back({rank, std::nullopt});
    } else {
      peer.asked = false;
      // The answer to an old question may be older than this collective; the next round asks anew.
      if (!peer.before || *answer / kShared >= mine_) judge(rank, *answer);
    }
  }
}

void LivenessCheck::judge(int peer, int64_t answer) {
  if (answer / kShared < mine_)
    late_.push_back({peer, answer / kShared});
  else if (answer / kShared == mine_ && answer % kShared != shared_)
    disagrees_ = peer;
}

std::string LivenessCheck::late(const std::vector<int>& names) const {
  std::string text;
  const std::size_t named = late_.size() > kMostNamed ? kNamedOfMore : late_.size();
  for (std::size_t i = 0; i < named; ++i) {
    const Late& l = late_[i];
    text +=
        (i == 0 ? "rank " : ", rank ") + std::to_string(names[static_cast<std::size_t>(l.rank)]);
    text += !l.came
                ? " does not answer"
                : rt::sdk::format(" has come to %lld collectives of %lld",
                                  static_cast<long long>(*l.came), static_cast<long long>(mine_));
  }
  if (named < late_.size())
    text += ", and " + std::to_string(late_.size() - named) + " more ranks are late";
  return text;
}

std::optional<int> LivenessCheck::silent() const {
  const auto found =
      std::find_if(late_.begin(), late_.end(), [](const Late& l) { return !l.came; });
  return found == late_.end() ? std::nullopt : std::optional<int>(found->rank);
}

}  // namespace collectives::mesh
