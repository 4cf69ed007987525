// A first-in, first-out queue that keeps its memory.
#ifndef RT_SDK_RING_H_
#define RT_SDK_RING_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace rt::sdk {

// Allocates only when it is made and when it grows, so that a launch can queue its work without
// allocating, as the contract asks. T has a default, which stands in the free places. One thread
// may use it at a time.
template <typename T>
class Ring {
 public:
  // Whether no element is there.
  bool empty() const { return count_ == 0; }
  // Adds an element behind all others.
  void push(T value) {
    if (count_ == places_.size()) {
      std::rotate(places_.begin(), places_.begin() + static_cast<std::ptrdiff_t>(head_),
                  places_.end());
      head_ = 0;
      places_.resize(2 * places_.size());
    }
    places_[(head_ + count_++) % places_.size()] = std::move(value);
  }
  // Removes the oldest element, which must exist, and returns it.
  T pop() {
    T value = std::exchange(places_[head_], T{});
    head_ = (head_ + 1) % places_.size();
    --count_;
    return value;
  }

 private:
  static constexpr size_t kFirstPlaces = 1024;  // more than a step of most models queues

  std::vector<T> places_ = std::vector<T>(kFirstPlaces);
  size_t head_ = 0, count_ = 0;
};

}  // namespace rt::sdk

#endif  // RT_SDK_RING_H_
