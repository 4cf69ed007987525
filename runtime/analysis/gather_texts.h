// Texts of all ranks, on rank 0.
#ifndef RUNTIME_ANALYSIS_GATHER_TEXTS_H_
#define RUNTIME_ANALYSIS_GATHER_TEXTS_H_

#include <string>
#include <vector>

#include "runtime/exec/collectives.h"

namespace runtime::analysis {

// Called by all ranks at the same time; nullptr: one rank. Returns the texts in the order of ranks
// on rank 0, and nothing on the others. Equivalent to: torch.distributed.gather_object.
std::vector<std::string> gather_texts(const std::string& own, exec::Collectives* collectives);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_GATHER_TEXTS_H_
