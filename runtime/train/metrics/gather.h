// Gathers what every rank of a job knows, which may be of another size on each rank.
#ifndef RUNTIME_TRAIN_METRICS_GATHER_H_
#define RUNTIME_TRAIN_METRICS_GATHER_H_

#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

namespace runtime::exec {
class Collectives;
}

namespace runtime::train {

// A function that every rank calls with bytes of its own, and that returns those of all ranks in
// the order of the ranks. Equivalent to: all_gather_object of torch.distributed.
using Gather =
    std::function<std::vector<std::vector<std::byte>>(const std::vector<std::byte>& own)>;

// The function returns the gather of a job; nullptr: it has one rank. `collectives` must outlive
// the result, which throws CommunicationError.
Gather gather_over(exec::Collectives* collectives);

// The numbers of all ranks, by rank. T is a type of numbers.
template <class T>
std::vector<std::vector<T>> gather_numbers(const Gather& gather, const std::vector<T>& own) {
  std::vector<std::byte> bytes(own.size() * sizeof(T));
  if (!own.empty()) std::memcpy(bytes.data(), own.data(), bytes.size());
  std::vector<std::vector<T>> all;
  for (const std::vector<std::byte>& of_rank : gather(bytes)) {
    std::vector<T>& numbers = all.emplace_back(of_rank.size() / sizeof(T));
    if (!numbers.empty()) std::memcpy(numbers.data(), of_rank.data(), of_rank.size());
  }
  return all;
}

// Adds up integers of all ranks, element by element; every rank gives equally many.
template <class T>
std::vector<T> gather_sum(const Gather& gather, const std::vector<T>& own) {
  std::vector<T> sum(own.size(), 0);
  for (const std::vector<T>& of_rank : gather_numbers(gather, own)) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += of_rank[i];
  }
  return sum;
}

// The numbers of all ranks in one list, those of rank 0 first.
template <class T>
std::vector<T> gather_list(const Gather& gather, const std::vector<T>& own) {
  std::vector<T> list;
  for (const std::vector<T>& of_rank : gather_numbers(gather, own))
    list.insert(list.end(), of_rank.begin(), of_rank.end());
  return list;
}

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_METRICS_GATHER_H_
