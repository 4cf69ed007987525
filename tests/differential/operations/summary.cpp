// The tables of a report.
#include <algorithm>
#include <set>
#include <tuple>

#include "rt/sdk/error.h"
#include "tests/differential/operations/family.h"
#include "tests/differential/operations/report.h"

namespace differential {
namespace {

using rt::sdk::format;

std::string row_text(const std::string& name, const Row& r) {
  return format("%-32s %8lld %10lld %7lld %8lld %8lld\n", name.c_str(),
                static_cast<long long>(r.cases), static_cast<long long>(r.candidates),
                static_cast<long long>(r.wrong), static_cast<long long>(r.refused),
                static_cast<long long>(r.crashed));
}

std::string operations_text(const Tally& tally) {
  std::string text = format("%-32s %8s %10s %7s %8s %8s\n", "operation", "cases", "candidates",
                            "wrong", "refused", "crashed");
  Row total;
  for (const auto& [name, r] : tally.rows) {
    text += row_text(name, r);
    total = {total.cases + r.cases, total.candidates + r.candidates, total.wrong + r.wrong,
             total.refused + r.refused, total.crashed + r.crashed};
  }
  return text + row_text("all", total);
}

// For example "float32 100, float64 20": the `most` most frequent, in this order.
std::string counts_text(const std::map<std::string, int64_t>& counts, size_t most) {
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (size_t i = 0; i < std::min(most, sorted.size()); ++i) {
    text += (i ? ", " : "") + sorted[i].first + " " + std::to_string(sorted[i].second);
  }
  if (sorted.size() > most) text += format(" and %zu others", sorted.size() - most);
  return text;
}

std::string coverage_text(const Tally& t) {
  std::string text = format("operations: %zu of %zu", t.rows.size(), families().size());
  for (const Family& f : families()) {
    if (!t.rows.contains(f.operation)) text += " (not " + f.operation + ")";
  }
  text += "\ntypes: " + counts_text(t.types, 9) + "\nthreads: " + counts_text(t.threads, 9);
  text += "\nfills: " + counts_text(t.fills, 9) + "\nspecial values: " + counts_text(t.plants, 9);
  text += "\npost-operations: " + counts_text(t.post, 12) + "\nnumbers:";
  std::string operation;
  for (const auto& [name, range] : t.numbers) {
    const std::string of = name.substr(0, name.find('.'));
    if (of != operation) text += "\n  " + of;
    operation = of;
    text += format(" %s %lld..%lld", name.c_str() + of.size() + 1,
                   static_cast<long long>(range.first), static_cast<long long>(range.second));
  }
  text += "\nimplementations:";
  for (const auto& [name, n] : t.implementations)
    text += format("\n  %-60s %8lld cases", name.c_str(), static_cast<long long>(n));
  if (!t.refusals.empty()) text += "\nrefusals: " + counts_text(t.refusals, 10);
  return text + "\n";
}

// Groups failures by operation, kind and implementation; prints the shortest of each group.
std::string failures_text(const std::vector<const Chunk*>& chunks) {
  using Key = std::tuple<std::string, std::string, std::string>;
  std::map<Key, std::pair<int, const Failure*>> kinds;
  for (const Chunk* chunk : chunks) {
    for (const Failure& f : chunk->failures) {
      const std::string operation = f.recipe.substr(0, f.recipe.find(' '));
      auto& [n, shortest] = kinds[{operation, f.finding.kind, f.finding.implementation}];
      ++n;
      if (shortest == nullptr || f.shrunk.size() < shortest->shrunk.size()) shortest = &f;
    }
  }
  std::string text;
  for (const auto& [key, entry] : kinds) {
    const auto& [n, f] = entry;
    text += format("\n%d times: %s, %s, %s\n  ", n, std::get<0>(key).c_str(),
                   std::get<1>(key).c_str(), std::get<2>(key).c_str()) +
            f->finding.detail + "\n  --replay '" + f->shrunk + "'\n";
  }
  return text.empty() ? "nothing found\n" : text;
}

}  // namespace

std::string summary_text(const std::vector<Chunk>& chunks) {
  std::map<std::pair<std::string, std::string>, std::vector<const Chunk*>> groups;
  for (const Chunk& chunk : chunks) groups[{chunk.device, chunk.isa}].push_back(&chunk);
  std::string text;
  for (const auto& [group, members] : groups) {
    Tally total;
    for (const Chunk* chunk : members) total.add(chunk->tally);
    text += format("== %s, instruction set %s, %zu seeds\n", group.first.c_str(),
                   group.second.c_str(), members.size());
    text += operations_text(total) + coverage_text(total) + failures_text(members) + "\n";
  }
  return text;
}

}  // namespace differential
