// Numbers of a data set that do not change any more: a vector's, or those of shared memory.
#ifndef RUNTIME_DATA_HELD_H_
#define RUNTIME_DATA_HELD_H_

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace runtime::data {

template <class T>
class Held {
 public:
  Held() = default;
  explicit Held(std::vector<T> numbers) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(numbers));
    numbers_ = *owner;
    owner_ = std::move(owner);
  }
  // `owner` keeps the numbers alive.
  Held(std::shared_ptr<const void> owner, std::span<const T> numbers)
      : owner_(std::move(owner)), numbers_(numbers) {}

  const T* data() const { return numbers_.data(); }
  std::size_t size() const { return numbers_.size(); }
  std::span<const T> span() const { return numbers_; }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const T> numbers_;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_HELD_H_
