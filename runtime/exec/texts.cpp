// Sends texts of any length by broadcasts of pieces.
#include "runtime/exec/texts.h"

#include <algorithm>
#include <utility>

namespace runtime::exec {

namespace {

constexpr uint64_t kPiece = uint64_t{4} << 20;  // bytes

// Sends the text of rank `root` to all ranks. Rank 0 and `root` have the whole of it in `text`; the
// others keep one piece at a time.
void send(std::string& text, uint64_t size, int root, Collectives& collectives) {
  const bool keeps = collectives.rank() == 0 || collectives.rank() == root;
  std::string piece(keeps ? 0 : std::min(size, kPiece), '\0');
  for (uint64_t at = 0; at < size; at += kPiece)
    collectives.broadcast(keeps ? text.data() + at : piece.data(), std::min(kPiece, size - at),
                          root);
}

}  // namespace

std::vector<std::string> gather_texts(std::string own, Collectives* collectives) {
  if (collectives == nullptr) return {std::move(own)};
  const bool main = collectives->rank() == 0;
  std::vector<uint64_t> sizes(collectives->world_size());
  const uint64_t size = own.size();
  collectives->all_gather(&size, sizes.data(), sizeof(size));
  std::vector<std::string> all;
  // A broadcast takes each text to every rank, but unlike a message every plugin has it.
  for (int r = 0; r < collectives->world_size(); ++r) {
    std::string text;
    if (r == collectives->rank()) text = std::move(own);
    if (main) text.resize(sizes[r]);
    send(text, sizes[r], r, *collectives);
    if (main) all.push_back(std::move(text));
  }
  return all;
}

std::string broadcast_text(std::string text, Collectives* collectives) {
  if (collectives == nullptr) return text;
  uint64_t size = text.size();
  collectives->broadcast(&size, sizeof(size), 0);
  text.resize(size);
  for (uint64_t at = 0; at < size; at += kPiece)
    collectives->broadcast(text.data() + at, std::min(kPiece, size - at), 0);
  return text;
}

}  // namespace runtime::exec
