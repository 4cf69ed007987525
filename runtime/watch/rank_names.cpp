// Adds the host to a rank's number where a job has several hosts.
#include "runtime/watch/rank_names.h"

#include <algorithm>
#include <utility>

#include "rt/sdk/ranks.h"

namespace runtime::watch {

RankNames::RankNames(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {
  if (!hosts_.empty() && std::count(hosts_.begin(), hosts_.end(), hosts_.front()) ==
                             static_cast<std::ptrdiff_t>(hosts_.size()))
    hosts_.clear();
}

std::string RankNames::number(int rank) const {
  const auto index = static_cast<size_t>(rank);
  return std::to_string(rank) + (index < hosts_.size() ? " (" + hosts_[index] + ")" : "");
}

std::string RankNames::of(int rank) const { return "rank " + number(rank); }

std::string RankNames::of(const std::vector<int>& ranks) const {
  return rt::sdk::rank_list(ranks, [this](int rank) { return number(rank); });
}

}  // namespace runtime::watch
