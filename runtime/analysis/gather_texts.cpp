#include "runtime/analysis/gather_texts.h"

namespace runtime::analysis {

std::vector<std::string> gather_texts(const std::string& own, exec::Collectives* collectives) {
  if (collectives == nullptr) return {own};
  const bool main = collectives->rank() == 0;
  std::vector<uint64_t> sizes(collectives->world_size());
  const uint64_t size = own.size();
  collectives->all_gather(&size, sizes.data(), sizeof(size));
  std::vector<std::string> all;
  // A broadcast takes each text to every rank, but unlike a message every plugin has it.
  for (int r = 0; r < collectives->world_size(); ++r) {
    std::string text = r == collectives->rank() ? own : std::string(sizes[r], '\0');
    if (sizes[r] > 0) collectives->broadcast(text.data(), text.size(), r);
    if (main) all.push_back(std::move(text));
  }
  return all;
}

}  // namespace runtime::analysis
