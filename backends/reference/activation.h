// The activation functions and their derivatives, in double.
#ifndef BACKENDS_REFERENCE_ACTIVATION_H_
#define BACKENDS_REFERENCE_ACTIVATION_H_

#include <cmath>
#include <cstdint>

#include "backends/reference/check.h"

namespace backends::reference {

inline constexpr double kSqrtHalf = 0.70710678118654752440;          // sqrt(1/2)
inline constexpr double kSqrtTwoOverPi = 0.79788456080286535588;     // sqrt(2/pi)
inline constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;  // 1/sqrt(2 pi)
// The coefficient of the cubic term in GELU's tanh approximation: Hendrycks and Gimpel, "Gaussian
// Error Linear Units", 2016.
inline constexpr double kGeluCubic = 0.044715;

// Each struct below is one function: value(x) is its value, and backward(dy, s) is dy times its
// derivative, where s is the operand that plugins/operations.md names (the result y, or x for the
// gelus and silu, which say so by kOfInput). Those behind Silu have no backward.
struct Relu {
  static double value(double x) { return x > 0 ? x : (x != x ? x : 0.0); }  // NaN gives NaN
  // A NaN lets the gradient through, as in PyTorch.
  static double backward(double dy, double y) { return y <= 0 ? 0.0 : dy; }
};

struct Gelu {
  static constexpr bool kOfInput = true;
  // The distribution function of the normal distribution. It uses erfc, because 1 + erf has no
  // digits left where it is small.
  static double phi(double x) { return 0.5 * std::erfc(-x * kSqrtHalf); }
  static double value(double x) { return x * phi(x); }
  static double backward(double dy, double x) {
    return dy * (phi(x) + x * kInverseSqrtTwoPi * std::exp(-0.5 * x * x));
  }
};

struct GeluTanh {
  static constexpr bool kOfInput = true;
  // (1 + tanh(z)) / 2 in a form that keeps its digits where it is small.
  static double phi(double x) {
    return 1.0 / (1.0 + std::exp(-2.0 * kSqrtTwoOverPi * (x + kGeluCubic * x * x * x)));
  }
  static double value(double x) { return x * phi(x); }
  static double backward(double dy, double x) {
    const double p = phi(x);
    // Limits the slope to finite values, because it is multiplied by 0 where phi is 0 or 1.
    const double near = x < -1e4 ? -1e4 : (x > 1e4 ? 1e4 : x);
    const double slope = 2.0 * kSqrtTwoOverPi * (1.0 + 3.0 * kGeluCubic * near * near);
    return dy * (p + x * p * (1.0 - p) * slope);
  }
};

struct Tanh {
  static double value(double x) { return std::tanh(x); }
  static double backward(double dy, double y) { return dy * (1.0 - y * y); }
};

struct Sigmoid {
  static double value(double x) { return 1.0 / (1.0 + std::exp(-x)); }
  static double backward(double dy, double y) { return dy * y * (1.0 - y); }
};

struct Silu {
  static constexpr bool kOfInput = true;
  static double value(double x) { return x * Sigmoid::value(x); }
  static double backward(double dy, double x) {
    const double s = Sigmoid::value(x);
    return dy * (s + x * s * (1.0 - s));
  }
};

struct Exp {
  static double value(double x) { return std::exp(x); }
};

struct Log {
  static double value(double x) { return std::log(x); }
};

struct Sqrt {
  static double value(double x) { return std::sqrt(x); }
};

struct Reciprocal {
  static double value(double x) { return 1.0 / x; }
};

struct Sin {
  static double value(double x) { return std::sin(x); }
};

struct Cos {
  static double value(double x) { return std::cos(x); }
};

struct Floor {
  static double value(double x) { return std::floor(x); }
};

// Calls body(Function{}) with one of the structs above that have a backward.
template <typename Body>
void with_differentiable(int64_t function, Body&& body) {
  switch (function) {
    case RT_ACTIVATION_RELU:
      return body(Relu{});
    case RT_ACTIVATION_GELU:
      return body(Gelu{});
    case RT_ACTIVATION_GELU_TANH:
      return body(GeluTanh{});
    case RT_ACTIVATION_TANH:
      return body(Tanh{});
    case RT_ACTIVATION_SIGMOID:
      return body(Sigmoid{});
  }
}

// Calls body(Function{}) with one of those that gated_activation knows.
template <typename Body>
void with_gate(int64_t function, Body&& body) {
  if (function == RT_ACTIVATION_SILU) return body(Silu{});
  return with_differentiable(function, body);
}

// Calls body(Function{}) with any that `activation` knows.
template <typename Body>
void with_activation(int64_t function, Body&& body) {
  switch (function) {
    case RT_ACTIVATION_EXP:
      return body(Exp{});
    case RT_ACTIVATION_LOG:
      return body(Log{});
    case RT_ACTIVATION_SQRT:
      return body(Sqrt{});
    case RT_ACTIVATION_RECIPROCAL:
      return body(Reciprocal{});
    case RT_ACTIVATION_SIN:
      return body(Sin{});
    case RT_ACTIVATION_COS:
      return body(Cos{});
    case RT_ACTIVATION_FLOOR:
      return body(Floor{});
    default:
      return with_differentiable(function, body);
  }
}

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_ACTIVATION_H_
