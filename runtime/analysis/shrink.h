// From an operation that a device gets wrong to one of fewer rows that it still gets wrong.
#ifndef RUNTIME_ANALYSIS_SHRINK_H_
#define RUNTIME_ANALYSIS_SHRINK_H_

#include <memory>
#include <optional>

#include "runtime/analysis/isolated.h"
#include "runtime/analysis/judge.h"

namespace runtime::analysis {

// An operation that a device gets wrong when it runs alone.
struct Reproduced {
  IsolatedOperation isolated;
  HostTensors expected, actual;
  std::vector<Bound> bounds;
  Verdict verdict;
};

// nullopt: it computes it right.
std::optional<Reproduced> reproduce(const Judge& judge,
                                    const std::shared_ptr<plugins::host::Device>& device,
                                    IsolatedOperation isolated);

// `keep` rows from `first` of every operand that has as many rows as the first one has, but for
// weights and tables. nullopt: there are no rows, or only one, or the operation does not work on
// rows.
std::optional<IsolatedOperation> with_rows(const IsolatedOperation& isolated, int64_t first,
                                           int64_t keep);

// Halves the rows as long as the device still offers the candidate and still gets one of the halves
// wrong.
Reproduced shrink_rows(const Judge& judge, const std::shared_ptr<plugins::host::Device>& device,
                       Reproduced reproduced);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_SHRINK_H_
