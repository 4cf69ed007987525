// How messages name the ranks of a job.
#ifndef RUNTIME_WATCH_RANK_NAMES_H_
#define RUNTIME_WATCH_RANK_NAMES_H_

#include <string>
#include <vector>

namespace runtime::watch {

// Names ranks with their hosts where a job has several: "rank 5 (node-b)". Any thread.
class RankNames {
 public:
  // `hosts`: the host of each rank; empty: unknown. Hosts that are all the same are not named.
  explicit RankNames(std::vector<std::string> hosts = {});

  // "rank 5", "rank 5 (node-b)"
  std::string of(int rank) const;
  // "rank 2", "ranks 0, 1 and 3", "ranks 0 (node-a), 1 (node-a) and 3 (node-b)"; of more than eight
  // only the first
  std::string of(const std::vector<int>& ranks) const;

 private:
  std::string number(int rank) const;

  std::vector<std::string> hosts_;  // by rank; empty if there is one host
};

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_RANK_NAMES_H_
