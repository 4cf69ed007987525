// Splits and joins ranges of memory, and keeps who has written and read each last.
#include "plugins/validate/history.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace plugins::validate {

std::string to_string(const Range& range) {
  char text[64];
  std::snprintf(text, sizeof(text), "%llu bytes at 0x%llx",
                static_cast<unsigned long long>(range.bytes),
                static_cast<unsigned long long>(range.begin));
  return text;
}

History::Parts::iterator History::cut(uintptr_t at) {
  const auto next = parts_.lower_bound(at);
  if (next == parts_.begin()) return next;
  const auto part = std::prev(next);
  if (part->second.end <= at) return next;
  Part rest = part->second;
  part->second.end = at;
  return parts_.emplace_hint(next, at, std::move(rest));
}

std::optional<Use> History::conflict(const Part& part, bool writes, const Clock& known) {
  if (!known.covers(part.write.epoch)) return part.write;
  if (!writes) return std::nullopt;
  for (const Use& read : part.reads) {
    if (!known.covers(read.epoch)) return read;
  }
  return std::nullopt;
}

void History::keep(Part& part, bool writes, const Use& use) {
  if (writes) {
    part.write = use;
    part.reads.clear();
    return;
  }
  const auto same = std::find_if(part.reads.begin(), part.reads.end(), [&](const Use& read) {
    return read.epoch.stream == use.epoch.stream;
  });
  if (same == part.reads.end()) {
    part.reads.push_back(use);
  } else {
    *same = use;
  }
}

std::optional<Use> History::add(const Range& range, bool writes, const Use& use,
                                const Clock& known) {
  std::optional<Use> found;
  cut(range.end());
  auto part = cut(range.begin);
  for (uintptr_t at = range.begin; at < range.end(); ++part) {
    if (part == parts_.end() || part->first > at) {  // bytes that nobody has used yet
      const uintptr_t end = part == parts_.end() ? range.end() : std::min(part->first, range.end());
      part = parts_.emplace_hint(part, at, Part{end, {}, {}});
    }
    if (!found) found = conflict(part->second, writes, known);
    keep(part->second, writes, use);
    at = part->second.end;
  }
  return found;
}

std::optional<Use> History::conflict(const Range& range, bool writes, const Clock& known) {
  cut(range.end());
  for (auto part = cut(range.begin); part != parts_.end() && part->first < range.end(); ++part) {
    if (auto found = conflict(part->second, writes, known)) return found;
  }
  return std::nullopt;
}

void History::forget(const Range& range) {
  const auto end = cut(range.end());
  parts_.erase(cut(range.begin), end);
}

}  // namespace plugins::validate
