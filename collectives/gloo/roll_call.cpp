#include "roll_call.h"

#include <gloo/common/error.h>

#include <atomic>

#include "rt/sdk/error.h"

namespace collectives::gloo {
namespace {

constexpr uint64_t kSlot = uint64_t{0x53} << 56;
constexpr int64_t kUnknown = -1;

}  // namespace

RollCall::RollCall(Mesh& mesh)
    : mesh_(mesh),
      theirs_(static_cast<std::size_t>(mesh.size)),
      answer_(mesh.createUnboundBuffer(&mine_, sizeof(mine_))),
      question_(mesh.createUnboundBuffer(theirs_.data(), theirs_.size() * sizeof(int64_t))) {
  for (int peer = 0; peer < mesh_.size; ++peer) {
    try {
      for (int i = 0; i < kQuestions && peer != mesh_.rank; ++i) answer_->send(peer, kSlot);
    } catch (const ::gloo::IoException&) {  // it has left or is lost, which is found elsewhere
    }
  }
}

void RollCall::came() { std::atomic_ref(mine_).fetch_add(1); }

bool RollCall::ask() {
  if (asked_ == kQuestions) return false;
  ++asked_;
  for (int peer = 0; peer < mesh_.size; ++peer) {
    const auto place = static_cast<std::size_t>(peer);
    std::atomic_ref(theirs_[place]).store(peer == mesh_.rank ? mine_ : kUnknown);
    if (peer != mesh_.rank) question_->recv(peer, kSlot, place * sizeof(int64_t), sizeof(int64_t));
  }
  return true;
}

std::string RollCall::describe(const std::vector<int>& names) {
  std::string text;
  for (std::size_t rank = 0; rank < theirs_.size(); ++rank) {
    const int64_t came = std::atomic_ref(theirs_[rank]).load();
    if (came >= mine_) continue;
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(names[rank]);
    text += came == kUnknown
                ? " does not answer"
                : rt::sdk::format(" has come to %lld collectives of %lld",
                                  static_cast<long long>(came), static_cast<long long>(mine_));
  }
  return text;
}

}  // namespace collectives::gloo
