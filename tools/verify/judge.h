// Decides whether an operation computed the right numbers: it compares them with those that the
// plugin `reference` computes in float64, with bounds that take rounding into account.
#ifndef TOOLS_VERIFY_JUDGE_H_
#define TOOLS_VERIFY_JUDGE_H_

#include <memory>
#include <string>
#include <vector>

#include "tools/verify/isolated.h"

namespace runtime::verify {

// By how much one output may differ from the reference. Its error in the 2-norm is at most
// max(tolerance x ||expected||, rounding), and the error of a single element at most
// max(kElementSlack x tolerance x largest expected element, element_rounding).
struct Bound {
  double tolerance = 0;         // relative; 0: nothing is rounded
  double rounding = 0;          // absolute, in the 2-norm: what rounding may cause
  double element_rounding = 0;  // the same for one element
};

// The norm of a tensor of millions of elements would hide a single element that is quite wrong, so
// elements have a bound of their own, which is this much wider.
inline constexpr double kElementSlack = 16;

// How one output compares with the reference. `error` and `bound` are relative to the norm of the
// expected output. If `single` says that only a single element is out of bounds, they are relative
// to the largest expected element.
struct Verdict {
  bool right = true, single = false;
  double error = 0, bound = 0;
  uint32_t output = 0;              // which output
  std::vector<int64_t> index;       // of the element with the largest error
  double actual = 0, expected = 0;  // values of that element
};

// Compares one output. `expected` holds float64 numbers, or integers, which must be equal. If an
// operand is NaN or infinite (`finite_operands` is false), elements that are not finite on one of
// the sides are left out, because transforms may spread them.
Verdict compare(const data::HostTensor& actual, const data::HostTensor& expected,
                const Bound& bound, bool finite_operands = true);

// Returns whether no operand contains a NaN or an infinity.
bool has_finite_operands(const IsolatedOperation& isolated);

// Returns the relative tolerance of an output before any claim of a plugin: one rounding of its
// type, and for float32 and float64 what the order of a sum may change. 0 for operations that only
// move numbers.
double usual_tolerance(const IsolatedOperation& isolated, size_t output);
// Returns the tolerance with what the plugin claims in `query`, as far as the contract accepts
// claims (plugins/README.md).
double tolerance_with_claim(double usual, rt_dtype dtype, double claimed);

// Compares the results of operations with those of the plugin `reference`. One thread uses an
// object.
class Judge {
 public:
  // `definition` is a device of that plugin: the reference device.
  explicit Judge(std::shared_ptr<plugins::host::Device> definition)
      : definition_(std::move(definition)) {}

  const plugins::host::Device& definition() const { return *definition_; }

  // Throws DataError, with the reason that the reference device gives, if that refuses the
  // operation.
  void check(const IsolatedOperation& isolated) const;

  // Returns the outputs that the reference device computes in float64 (for a conversion, in its own
  // types) from these very operands.
  HostTensors expect(const IsolatedOperation& isolated) const;

  // Returns the bounds of all outputs; `claimed` is rt_support.tolerance. Runs the operation twice
  // more on the reference device.
  std::vector<Bound> bounds(const IsolatedOperation& isolated, const HostTensors& expected,
                            double claimed) const;

  // Returns the verdict on the output that exceeds its bound the most, or on the one with the
  // largest error if none does. The bounds, with the claim of `device`, are computed only if the
  // usual tolerance is not enough.
  Verdict judge(plugins::host::Device& device, const IsolatedOperation& isolated,
                const HostTensors& actual, const HostTensors& expected) const;

 private:
  std::shared_ptr<plugins::host::Device> definition_;
};

// Returns the tolerance that `query` claims for the operation in its layouts, or 0 if it is
// refused.
double claimed_tolerance(plugins::host::Device& device, const plugins::host::Operation& operation);

// Returns the verdict on the first output that is not right, or on the one with the largest error
// if all are right.
Verdict compare_all(const HostTensors& actual, const HostTensors& expected,
                    const std::vector<Bound>& bounds, bool finite_operands);

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_JUDGE_H_
