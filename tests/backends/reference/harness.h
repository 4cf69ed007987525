// Runs reference kernels on values given as double, whatever the type of the operands.
#ifndef TESTS_BACKENDS_REFERENCE_HARNESS_H_
#define TESTS_BACKENDS_REFERENCE_HARNESS_H_

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "plugins/host/operation.h"
#include "rt/operations.h"

namespace backends::reference::testing {

using Dims = std::vector<int64_t>;
using Array = std::vector<double>;
using Attributes = std::vector<plugins::host::Attribute>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// An operation whose operands all have one type, float64 by default.
plugins::host::Operation operation(const std::string& name, const std::vector<Dims>& inputs,
                                   const std::vector<Dims>& outputs,
                                   const Attributes& attributes = {}, rt_dtype dtype = RT_FLOAT64);

// The data that a forward operation saves for its backward operation.
using Saved = std::vector<std::byte>;

// The outputs for these inputs. A forward operation that saves data fills `saved`, a backward
// operation reads it.
std::vector<Array> run(const plugins::host::Operation& op, const std::vector<Array>& inputs,
                       Saved* saved = nullptr);

// The single output of an operation without saved data.
Array run1(const plugins::host::Operation& op, const std::vector<Array>& inputs);

int64_t count(const Dims& dims);
// Uniform in [low, high), the same on every machine.
Array random_array(const Dims& dims, uint64_t seed, double low = -1.0, double high = 1.0);

// The norm of the difference divided by the norm of `expected`.
double relative_error(const Array& actual, const Array& expected);

// Expects `gradient` to be d(sum of dy * function(x)) / dx, as central differences give it, within
// 1e-6 by norm.
void expect_gradient(const std::function<Array(const Array&)>& function, Array x, const Array& dy,
                     const Array& gradient, const std::string& what);

// The message of the error that make_kernel throws for `op`; "" if it throws none.
std::string refusal(const plugins::host::Operation& op);

}  // namespace backends::reference::testing

#endif  // TESTS_BACKENDS_REFERENCE_HARNESS_H_
