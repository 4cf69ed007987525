// Simulates the plans of several ranks together, call by call, and tells where they would wait
// for ever.
#include "runtime/watch/call_plan.h"

#include <algorithm>
#include <deque>
#include <set>

#include "plugins/host/text.h"
#include "rt/communicator.h"

namespace runtime::watch {
namespace {

// A sentence with the waits of more ranks than these would not be read.
constexpr size_t kMostNamed = 4;

bool is_transfer(const CollectiveRecord& call) { return call.channel().direction != 0; }

// A rank that follows its plan.
struct Follower {
  int rank;
  const Plan& plan;
  size_t at = 0;
  std::map<uint64_t, std::deque<const CollectiveRecord*>> queues = {};  // of calls not complete
  std::set<int64_t> complete = {};                                      // by position

  const CollectiveRecord* front(uint64_t communicator) {
    const auto& queue = queues[communicator];
    return queue.empty() ? nullptr : queue.front();
  }
  // Does the next thing, unless it waits for a call; returns whether it did.
  bool advance() {
    if (at == plan.size()) return false;
    const auto& [call, waits] = plan[at];
    if (waits && !complete.contains(call.position)) return false;
    if (!waits) queues[call.communicator].push_back(&call);
    ++at;
    return true;
  }
  void finish(uint64_t communicator) {
    complete.insert(front(communicator)->position);
    queues[communicator].pop_front();
  }
  // The call for which it waits; null: for none.
  const CollectiveRecord* stands_in() const {
    return at == plan.size() ? nullptr : call_at(plan, plan[at].call.position);
  }
};

class Simulation {
 public:
  Simulation(const std::map<int, Plan>& plans, const Groups& groups,
             const std::function<std::string(int)>& name)
      : groups_(groups), name_(name) {
    for (const auto& [rank, plan] : plans) ranks_.emplace(rank, Follower{rank, plan});
  }

  std::string run() {
    for (bool progress = true; progress && problem_.empty();) {
      progress = false;
      for (auto& [rank, follower] : ranks_) {
        while (follower.advance()) progress = true;
      }
      for (auto& [rank, follower] : ranks_) {
        for (auto& [communicator, queue] : follower.queues)
          progress |= problem_.empty() && communicate(follower, communicator);
      }
    }
    return problem_.empty() ? waits() : problem_;
  }

 private:
  // The members of the communicator that have a plan; for one that is not here a null pointer.
  std::vector<Follower*> members(const Follower& of, uint64_t communicator) {
    std::vector<Follower*> all;
    if (!groups_.members) {
      for (auto& [rank, follower] : ranks_) all.push_back(&follower);
      return all;
    }
    for (const int member : groups_.members(communicator, of.rank)) {
      const auto found = ranks_.find(member);
      all.push_back(found == ranks_.end() ? nullptr : &found->second);
    }
    return all;
  }

  // Completes the first call of a rank on a communicator if all that take part have made theirs.
  bool communicate(Follower& one, uint64_t communicator) {
    const CollectiveRecord* const call = one.front(communicator);
    if (call == nullptr) return false;
    const std::vector<Follower*> all = members(one, communicator);
    if (is_transfer(*call)) return transfer(one, all, *call);
    for (Follower* other : all) {
      const CollectiveRecord* const theirs = other == nullptr ? call : other->front(communicator);
      if (theirs == nullptr || is_transfer(*theirs)) return false;
      if (!are_equal(*call, *theirs)) return disagree(one, *call, *other, *theirs);
    }
    for (Follower* member : all) {
      if (member != nullptr) member->finish(communicator);
    }
    return true;
  }

  bool transfer(Follower& from, const std::vector<Follower*>& all, const CollectiveRecord& sent) {
    const auto peer = static_cast<size_t>(sent.peer);
    if (sent.kind != RT_SEND || peer >= all.size() || all[peer] == nullptr) return false;
    Follower& to = *all[peer];
    const CollectiveRecord* const received = to.front(sent.communicator);
    if (received == nullptr || received->kind != RT_RECEIVE) return false;
    const auto source = static_cast<size_t>(received->peer);
    if (source >= all.size() || all[source] != &from) return false;
    if (sent.count != received->count || sent.dtype != received->dtype)
      return disagree(from, sent, to, *received);
    from.finish(sent.communicator);
    to.finish(sent.communicator);
    return true;
  }

  static bool are_equal(const CollectiveRecord& a, const CollectiveRecord& b) {
    return a.kind == b.kind && a.reduction == b.reduction && a.peer == b.peer &&
           a.count == b.count && a.dtype == b.dtype;
  }

  std::string text(const Follower& one, const CollectiveRecord& call) const {
    return name_(one.rank) + " is in " + describe(call, groups_, one.rank);
  }

  bool disagree(const Follower& a, const CollectiveRecord& call, const Follower& b,
                const CollectiveRecord& theirs) {
    problem_ = text(a, call) + ", " + text(b, theirs);
    return false;
  }

  std::string waits() {
    std::string all;
    size_t named = 0, others = 0;
    for (auto& [rank, follower] : ranks_) {
      const CollectiveRecord* call = follower.stands_in();
      for (auto& [communicator, queue] : follower.queues) {
        if (call == nullptr && !queue.empty()) call = queue.front();
      }
      if (call == nullptr) continue;
      if (++named > kMostNamed) {
        ++others;
        continue;
      }
      all += (all.empty() ? "" : ", ") + text(follower, *call);
    }
    return others == 0 ? all : all + ", and " + std::to_string(others) + " others wait, too";
  }

  const Groups& groups_;
  const std::function<std::string(int)>& name_;
  std::map<int, Follower> ranks_;
  std::string problem_;
};

}  // namespace

int64_t calls_in(const Plan& plan) {
  return std::ranges::count_if(plan, [](const PlanItem& item) { return !item.waits; });
}

const CollectiveRecord* call_at(const Plan& plan, int64_t position) {
  const auto found = std::ranges::find_if(
      plan, [&](const PlanItem& item) { return !item.waits && item.call.position == position; });
  return found == plan.end() ? nullptr : &found->call;
}

std::string text_of(const CollectiveRecord& call) {
  CollectiveRecord unnamed = call;
  unnamed.set_label("");
  std::string text = std::string(call.label_text()) + ": " + describe(unnamed);
  if (call.reduction != 0) text += ", reduction " + std::to_string(call.reduction);
  return text + ", communicator " + std::to_string(call.communicator);
}

std::vector<std::string> order_of(const Plan& plan) {
  std::vector<std::string> order;
  for (const auto& [call, waits] : plan) {
    order.push_back(waits ? "the wait for call " + std::to_string(call.position)
                          : std::string(call.label_text()) + ": " +
                                plugins::host::collective_name(call.kind) + ", communicator " +
                                std::to_string(call.communicator) + ", peer " +
                                std::to_string(call.peer));
  }
  return order;
}

std::string find_standstill(const std::map<int, Plan>& plans, const Groups& groups,
                            const std::function<std::string(int)>& name) {
  return Simulation(plans, groups, name).run();
}

}  // namespace runtime::watch
