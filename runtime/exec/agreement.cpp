// Compares plans along the data axis and within communicators, and carries out those of one model
// groups.
#include "runtime/exec/agreement.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/error.h"
#include "runtime/watch/call_plan.h"

namespace runtime::exec {
namespace {

using watch::Plan;
using watch::PlanItem;

std::vector<std::string> calls_on(int communicator, const Plan& plan) {
  std::vector<std::string> calls;
  for (const PlanItem& item : plan) {
    if (!item.waits && item.call.communicator == static_cast<uint64_t>(communicator))
      calls.push_back(watch::text_of(item.call));
  }
  return calls;
}

// The plans of the ranks that have one model, by rank. Each begins with an item that names its
// rank; what is after its end waits for call 0.
std::map<int, Plan> plans_of_model(const Plan& own, const std::map<int, int>& communicators,
                                   Collectives& collectives) {
  Plan all = {{.call = {.peer = collectives.rank()}, .waits = true}};
  all.insert(all.end(), own.begin(), own.end());
  auto longest = static_cast<double>(all.size());
  collectives.all_reduce(&longest, 1, RT_MAX);
  const auto length = static_cast<ptrdiff_t>(longest);
  all.resize(static_cast<size_t>(length), {.waits = true});
  for (const auto& [communicator, ranks] : communicators) {
    const Plan sent = std::move(all);
    all.assign(sent.size() * static_cast<size_t>(ranks), {});
    collectives.all_gather(sent.data(), all.data(), sent.size() * sizeof(PlanItem), communicator);
  }
  std::map<int, Plan> plans;
  for (auto begin = all.cbegin(); begin != all.cend(); begin += length)
    std::copy_if(begin + 1, begin + length, std::back_inserter(plans[begin->call.peer]),
                 [](const PlanItem& item) { return item.call.position != 0; });
  return plans;
}

}  // namespace

void agree_on(const Plan& plan, const std::string& step, const RankGroups& groups,
              Collectives& collectives) {
  collectives.compare("action (of " + step + ")", watch::order_of(plan), groups.replicas);
  for (const auto& [communicator, ranks] : groups.equal)
    collectives.compare("collective (of " + step + ")", calls_on(communicator, plan), ranks);
  if (groups.of_model.empty()) return;
  const watch::WatchdogOptions& options = collectives.watchdog().options();
  const std::string standstill =
      watch::find_standstill(plans_of_model(plan, groups.of_model, collectives), options.groups,
                             [&](int rank) { return options.names.of(rank); });
  if (!standstill.empty())
    throw CommunicationError("the ranks would wait for each other for ever in " + step + ": " +
                             standstill +
                             "; start all ranks with the same configuration, data and program");
}

}  // namespace runtime::exec
