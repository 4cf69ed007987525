// The last uses of each byte of a device's memory.
#ifndef PLUGINS_VALIDATE_HISTORY_H_
#define PLUGINS_VALIDATE_HISTORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/validate/clock.h"

namespace plugins::validate {

// A range of addresses.
struct Range {
  uintptr_t begin = 0;
  uint64_t bytes = 0;
  uintptr_t end() const { return begin + bytes; }
  bool overlaps(const Range& other) const { return begin < other.end() && other.begin < end(); }
  bool contains(const Range& other) const {
    return other.begin >= begin && other.begin <= end() && other.bytes <= end() - other.begin;
  }
};

inline Range range_of(const void* address, uint64_t bytes) {
  return {reinterpret_cast<uintptr_t>(address), bytes};
}

// "4000 bytes at 0x7f0000001000".
std::string to_string(const Range& range);

// A piece of work that reads or writes memory, with the text that names it in a finding.
struct Use {
  Epoch epoch;
  std::shared_ptr<const std::string> what;
};

// The last write of each byte and the reads since. Not thread-safe.
class History {
 public:
  // Adds a use. Returns an earlier use of the same bytes that `known` does not cover, where one of
  // the two writes; nullopt: there is none.
  std::optional<Use> add(const Range& range, bool writes, const Use& use, const Clock& known);
  // As add() for a use by the host itself, which the history does not keep.
  std::optional<Use> conflict(const Range& range, bool writes, const Clock& known);
  // The bytes belong to nobody any more.
  void forget(const Range& range);

 private:
  struct Part {
    uintptr_t end = 0;
    Use write;  // time 0: none
    std::vector<Use> reads;
  };
  using Parts = std::map<uintptr_t, Part>;  // by first address, without overlaps

  // Cuts the part around an address in two. Returns the first part that begins there or later.
  Parts::iterator cut(uintptr_t at);
  static std::optional<Use> conflict(const Part& part, bool writes, const Clock& known);
  static void keep(Part& part, bool writes, const Use& use);

  Parts parts_;
};

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_HISTORY_H_
