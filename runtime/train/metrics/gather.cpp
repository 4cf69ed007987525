// Pads the bytes of ranks to one length, gathers them, and cuts them again.
#include "runtime/train/metrics/gather.h"

#include <algorithm>
#include <cstdint>

#include "runtime/exec/collectives.h"

namespace runtime::train {

namespace {

using Bytes = std::vector<std::byte>;

// An all-gather has messages of one size, so shorter ones are padded.
std::vector<Bytes> gather(exec::Collectives& collectives, const Bytes& own) {
  const auto ranks = static_cast<size_t>(collectives.world_size());
  const uint64_t size = own.size();
  std::vector<uint64_t> sizes(ranks);
  collectives.all_gather(&size, sizes.data(), sizeof(size));
  const uint64_t most = *std::max_element(sizes.begin(), sizes.end());
  std::vector<Bytes> result(ranks);
  if (most == 0) return result;
  Bytes sent = own, received(most * ranks);
  sent.resize(most);
  collectives.all_gather(sent.data(), received.data(), most);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto begin = received.begin() + static_cast<int64_t>(rank * most);
    result[rank].assign(begin, begin + static_cast<int64_t>(sizes[rank]));
  }
  return result;
}

}  // namespace

Gather gather_over(exec::Collectives* collectives) {
  if (collectives == nullptr) return [](const Bytes& own) { return std::vector<Bytes>{own}; };
  return [collectives](const Bytes& own) { return gather(*collectives, own); };
}

}  // namespace runtime::train
