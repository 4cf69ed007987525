// Ranks the trials of a rung, and takes the best of them to the next.
#include "tools/sweep/rungs.h"

#include <algorithm>
#include <map>

namespace tools::sweep {

bool is_better(const Record& a, const Record& b, bool maximize) {
  if (a.done() != b.done()) return a.done();
  if (!a.done() || a.value == b.value) return a.trial < b.trial;
  return maximize ? *a.value > *b.value : *a.value < *b.value;
}

std::vector<int64_t> promoted(const Halving& halving, const Records& records,
                              const std::vector<int64_t>& trials, int64_t rung, bool maximize) {
  std::vector<Record> results;
  for (const int64_t trial : trials) results.push_back(*records.find(trial, rung));
  std::sort(results.begin(), results.end(),
            [=](const Record& a, const Record& b) { return is_better(a, b, maximize); });
  const size_t most = std::max<size_t>(1, results.size() / static_cast<size_t>(halving.factor));
  std::vector<int64_t> best;
  for (const Record& result : results)
    if (result.done() && best.size() < most) best.push_back(result.trial);
  std::sort(best.begin(), best.end());
  return best;
}

std::vector<Record> ranking(const Records& records, bool maximize) {
  std::map<int64_t, Record> last;
  for (const Record& record : records.all()) {
    const auto found = last.find(record.trial);
    if (found == last.end() || found->second.rung <= record.rung) last[record.trial] = record;
  }
  std::vector<Record> list;
  for (auto& [trial, record] : last) list.push_back(std::move(record));
  std::sort(list.begin(), list.end(), [=](const Record& a, const Record& b) {
    // A trial that failed in a late rung has no result, however far it came.
    if (a.done() && b.done() && a.rung != b.rung) return a.rung > b.rung;
    return is_better(a, b, maximize);
  });
  return list;
}

}  // namespace tools::sweep
