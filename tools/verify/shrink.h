// Reduces an operation that a device computes wrong to fewer rows, as long as it is still computed
// wrong.
#ifndef TOOLS_VERIFY_SHRINK_H_
#define TOOLS_VERIFY_SHRINK_H_

#include <memory>
#include <optional>

#include "tools/verify/isolated.h"
#include "tools/verify/judge.h"

namespace runtime::verify {

// An operation that a device computes wrong even when it runs alone.
struct Reproduced {
  IsolatedOperation isolated;
  HostTensors expected, actual;
  std::vector<Bound> bounds;
  Verdict verdict;
};

// Runs the operation alone. Returns nothing if the device computes it right.
std::optional<Reproduced> reproduce(const Judge& judge,
                                    const std::shared_ptr<plugins::host::Device>& device,
                                    IsolatedOperation isolated);

// Returns the operation on the rows `first` to `first` + `keep` - 1 only. Operands with another
// number of rows than operand 0, weights and tables stay whole. Returns nothing if there are no
// rows, or only one, or if the operation does not work on rows.
std::optional<IsolatedOperation> with_rows(const IsolatedOperation& isolated, int64_t first,
                                           int64_t keep);

// Halves the rows as long as the device still offers the candidate and computes one of the halves
// wrong.
Reproduced shrink_rows(const Judge& judge, const std::shared_ptr<plugins::host::Device>& device,
                       Reproduced reproduced);

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_SHRINK_H_
