// Texts that go from rank to rank: every rank makes the same calls in the same order, from the
// thread of its collectives. They are sent in pieces, so that no collective takes long; a text may
// be a whole file.
#ifndef RUNTIME_EXEC_TEXTS_H_
#define RUNTIME_EXEC_TEXTS_H_

#include <string>
#include <vector>

#include "runtime/exec/collectives.h"

namespace runtime::exec {

// Returns the texts in the order of ranks on rank 0, and nothing on the others; nullptr: one rank.
// Equivalent to: torch.distributed.gather_object.
std::vector<std::string> gather_texts(std::string own, Collectives* collectives);

// Returns rank 0's text on every rank; nullptr: one rank. Equivalent to:
// torch.distributed.broadcast_object_list.
std::string broadcast_text(std::string of_rank_0, Collectives* collectives);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_TEXTS_H_
