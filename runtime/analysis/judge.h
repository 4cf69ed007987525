// Whether an operation computed the right numbers: its definition in float64, and bounds that know
// rounding.
#ifndef RUNTIME_ANALYSIS_JUDGE_H_
#define RUNTIME_ANALYSIS_JUDGE_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/analysis/isolated.h"

namespace runtime::analysis {

// By how much one output may differ from the definition. Its error in the 2-norm is at most
// max(tolerance x ||expected||, rounding), that of a single element at most
// max(kElementSlack x tolerance x largest expected, element_rounding).
struct Bound {
  double tolerance = 0;         // relative; 0: nothing is rounded
  double rounding = 0;          // absolute: what rounding may do where terms cancel
  double element_rounding = 0;  // the same of one element
};

// Below the norm of a tensor of millions an element that is quite wrong would not show.
inline constexpr double kElementSlack = 16;

// How one output compares. `error` and `bound` are relative to the norm of what is expected (to its
// largest element, if `single` says that one element alone is out of bounds).
struct Verdict {
  bool right = true, single = false;
  double error = 0, bound = 0;
  uint32_t output = 0;
  std::vector<int64_t> index;  // of the element that is off the most
  double actual = 0, expected = 0;
};

// `expected` holds float64 numbers, or integers, which must be equal. Where an operand is NaN or
// infinite, elements that are not finite on one of the sides are left out: transforms may spread
// them.
Verdict compare(const data::HostTensor& actual, const data::HostTensor& expected,
                const Bound& bound, bool finite_operands = true);

bool has_finite_operands(const IsolatedOperation& isolated);

// The relative tolerance of an output before any plugin claims more: one rounding of its type, and
// for float32 and float64 what the order of a sum may do to it. 0 for what only moves numbers.
double usual_tolerance(const IsolatedOperation& isolated, size_t output);
// With what the plugin claims in `query`, as far as the contract accepts claims
// (plugins/README.md).
double tolerance_with_claim(double usual, rt_dtype dtype, double claimed);

class Judge {
 public:
  // A device of the plugin that defines the operations.
  explicit Judge(std::shared_ptr<plugins::host::Device> definition)
      : definition_(std::move(definition)) {}

  const plugins::host::Device& definition() const { return *definition_; }

  // Throws DataError, with its words, if the definition refuses the operation.
  void check(const IsolatedOperation& isolated) const;

  // The outputs by the definition in float64 (of a conversion: in its own types), from these very
  // operands.
  HostTensors expect(const IsolatedOperation& isolated) const;

  // The bounds of all outputs. `claimed`: rt_support.tolerance. Computes the definition twice more.
  std::vector<Bound> bounds(const IsolatedOperation& isolated, const HostTensors& expected,
                            double claimed) const;

  // The output that is out of its bound the most, else the one with the largest error. The bounds
  // are computed, by `device`'s claim, where the usual tolerance is not enough.
  Verdict judge(plugins::host::Device& device, const IsolatedOperation& isolated,
                const HostTensors& actual, const HostTensors& expected) const;

 private:
  std::shared_ptr<plugins::host::Device> definition_;
};

// The tolerance that `query` claims for the operation in its layouts; 0 where it is refused.
double claimed_tolerance(plugins::host::Device& device, const IsolatedOperation& isolated);

// The verdict on the first output that is not right, else on the one with the largest error.
Verdict compare_all(const HostTensors& actual, const HostTensors& expected,
                    const std::vector<Bound>& bounds, bool finite_operands);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_JUDGE_H_
