// What is expected of an operation: the reference's answer in float64.
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
  // `reference` is a device of the plugin `reference`; everything is copied but the device.
  Oracle(plugins::host::Device& reference, const Recipe& recipe, const Case& c,
         const Operands& operands);

  // Elements of output j.
  const std::vector<double>& expected(size_t j) const { return expected_[j]; }
  // How output j may be compared with a device that claims `tolerance`. Refers to this Oracle.
  Allowance allowance(size_t j, double tolerance);
  // `earlier` expects what output 0 was before the last post-operation. Where that is beyond the
  // type, or infinite and may as well be NaN, anything will do now.
  void forgive_overflow_of(const Oracle& earlier);

 private:
  std::vector<std::vector<double>> run(const Operands& operands) const;
  bool has_finite_operands() const;
  const std::vector<double>& disturbed(size_t j, double tolerance);
  const std::vector<double>& magnitudes(size_t j);

  plugins::host::Device& reference_;
  const Family& family_;
  rt_dtype dtype_;  // of output 0 on the device
  Case case_;
  Operands operands_;
  std::vector<std::vector<double>> expected_;
  NotFinite not_finite_;
  double terms_ = 0;
  std::vector<std::vector<double>> magnitudes_;                   // made when needed
  std::map<double, std::vector<std::vector<double>>> disturbed_;  // by tolerance
};

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_ORACLE_H_
