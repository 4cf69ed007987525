// Which work is known to have run before which: vector clocks over the streams of a process.
#ifndef PLUGINS_VALIDATE_CLOCK_H_
#define PLUGINS_VALIDATE_CLOCK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plugins::validate {

// One piece of work: the `time`-th (counted from 1) that was queued on the stream of that number.
struct Epoch {
  std::size_t stream = 0;
  uint64_t time = 0;
};

// For each stream, how much of its work is known to have run. Equivalent to: a vector clock, as in
// ThreadSanitizer.
class Clock {
 public:
  // Afterwards this clock also knows what the other one knows.
  void join(const Clock& other);
  // Counts one more piece of work of the stream.
  Epoch advance(std::size_t stream);
  bool covers(const Epoch& epoch) const;

 private:
  std::vector<uint64_t> times_;  // by stream
};

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_CLOCK_H_
