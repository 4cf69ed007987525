// Random numbers that are the same on every machine and in every later version.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_RANDOM_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_RANDOM_H_

#include <cstdint>
#include <vector>

namespace differential {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // Uniform in low..high, both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool one_in(int64_t n) { return between(1, n) == 1; }
  template <typename T>
  const T& pick(const std::vector<T>& values) {
    return values[next() % values.size()];
  }

 private:
  uint64_t state_;
};

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_RANDOM_H_
