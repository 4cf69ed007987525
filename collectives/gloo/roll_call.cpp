#include "roll_call.h"

#include "rt/sdk/error.h"

namespace collectives::gloo {

void RollCall::came(bool shared) {
  ++mine_;
  if (shared) shared_ = (shared_ + 1) % kShared;
  wires_.set_progress(mine_ * kShared + shared_);
}

void RollCall::go_on() {
  const Time now = std::chrono::steady_clock::now();
  if (now < next_) return;
  asked_ = !asked_;
  next_ = now + (asked_ ? kAnswer : kAgain - kAnswer);
  if (!asked_) late_.clear();
  for (int peer = 0; peer < wires_.size; ++peer) {
    if (peer == wires_.rank) continue;
    if (asked_) {
      wires_.wire(peer).ask();
    } else if (const auto answer = wires_.wire(peer).answer(); !answer) {
      late_.push_back({peer, std::nullopt});
    } else if (*answer / kShared < mine_) {
      late_.push_back({peer, *answer / kShared});
    } else if (*answer / kShared == mine_ && *answer % kShared != shared_) {
      disagrees_ = peer;
    }
  }
}

std::string RollCall::late(const std::vector<int>& names) const {
  std::string text;
  for (const Late& l : late_) {
    text += (text.empty() ? "rank " : ", rank ") +
            std::to_string(names[static_cast<std::size_t>(l.rank)]);
    text += !l.came
                ? " does not answer"
                : rt::sdk::format(" has come to %lld collectives of %lld",
                                  static_cast<long long>(*l.came), static_cast<long long>(mine_));
  }
  return text;
}

std::optional<int> RollCall::silent() const {
  for (const Late& l : late_) {
    if (!l.came) return l.rank;
  }
  return std::nullopt;
}

}  // namespace collectives::gloo
