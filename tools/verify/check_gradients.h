// Whether the gradients of operations that plugins bring are those of their formulas.
#ifndef TOOLS_VERIFY_CHECK_GRADIENTS_H_
#define TOOLS_VERIFY_CHECK_GRADIENTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/host/device.h"
#include "runtime/model/layer.h"

namespace runtime::verify {

// The gradient of one operand of one layer, beside central differences.
struct GradientCheck {
  std::string layer, operation, operand;
  double error = 0;                     // ||gradient - differences|| / ||differences||
  std::vector<int64_t> index;           // of the element that differs most
  double gradient = 0, difference = 0;  // of that element
  bool right() const { return error <= kTolerance; }
  // Far above the error of differences in float64, far below that of a wrong formula.
  static constexpr double kTolerance = 1e-5;
};

// Computes each layer of `model` whose operation a plugin brought, alone and with random operands
// in float64, for two samples, and compares the gradient of a weighted sum of its output with
// central differences: for all elements of an operand, or for 64 of a larger one. Operands of which
// the output is a piecewise constant or has jumps have no such gradient. Empty if the model has no
// such layer. Throws ConfigurationError for an operation without a gradient, DeviceError if the
// device does not run it in float64.
std::vector<GradientCheck> check_gradients(const model::Model& model,
                                           const std::shared_ptr<plugins::host::Device>& device);

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_CHECK_GRADIENTS_H_
