// Computes the expected result of an operation with the reference in float64.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_ORACLE_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_ORACLE_H_

#include <map>
#include <memory>
#include <vector>

#include "plugins/host/device.h"
#include "tests/differential/operations/compare.h"
#include "tests/differential/operations/operands.h"

namespace differential {

class Oracle {
 public:
  // `reference` is a device of the plugin `reference` and must outlive the Oracle; the other
  // arguments are copied.
  Oracle(plugins::host::Device& reference, const Recipe& recipe, const Case& c,
         const Operands& operands);

  // The expected elements of output j.
  const std::vector<double>& expected(size_t j) const { return expected_[j]; }
  // How output j of a device that claims `tolerance` may be compared. The Allowance refers to this
  // Oracle, which must outlive it.
  Allowance allowance(size_t j, double tolerance);
  // `earlier` is the oracle of the case without its last post-operation. Where its output 0
  // overflows the type, or is infinite and may as well be NaN, any value of output 0 is accepted
  // here; also where it is so small that it may be 0 in the type, and infinite here: 0 times
  // infinity is NaN.
  void forgive_range_of(const Oracle& earlier);

 private:
  std::vector<std::vector<double>> run(const Operands& operands) const;
  bool has_finite_operands() const;
  const std::vector<double>& disturbed(size_t j, double tolerance);
  const std::vector<double>& magnitudes(size_t j);

  plugins::host::Device& reference_;
  const Family& family_;
  rt_dtype dtype_;  // the type of output 0 on the device
  Case case_;
  Operands operands_;
  std::vector<std::vector<double>> expected_;
  NotFinite not_finite_;
  double terms_ = 0;
  std::vector<std::vector<double>> magnitudes_;                   // computed on first use
  std::map<double, std::vector<std::vector<double>>> disturbed_;  // by tolerance
};

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_ORACLE_H_
