// rotary: turns pairs of columns of each head by angles whose cosines and sines are an operand.
#include "rt/sdk/rotary.h"

#include <algorithm>

#include "backends/reference/check.h"
#include "backends/reference/families.h"

namespace backends::reference {
namespace {

// Turns one head: `half` pairs, then the columns that are copied.
template <typename T>
void turn(const rt::sdk::RotaryShape& s, const T* x, const T* turns, T* y) {
  for (int64_t k = 0; k < s.half; ++k) {
    const double cosine = turns[k], sine = s.inverse ? -turns[s.half + k] : turns[s.half + k];
    const double a = x[k], b = x[s.half + k];
    y[k] = static_cast<T>(a * cosine - b * sine);
    y[s.half + k] = static_cast<T>(b * cosine + a * sine);
  }
  std::copy(x + 2 * s.half, x + s.width, y + 2 * s.half);
}

}  // namespace

Kernel make_rotary(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  const auto s = rt::sdk::rotary_shape(op, dtype, dtype);
  return floating_kernel(dtype, {.in_place = {1u << 0}}, [s]<typename T>(const Buffers& b) {
    for (int64_t row = 0; row < s.rows; ++row) {
      const T* turns = b.input<T>(1) + row % s.turn_rows * 2 * s.half;
      for (int64_t head = 0; head < s.heads; ++head) {
        const int64_t at = (row * s.heads + head) * s.width;
        turn(s, b.input<T>(0) + at, turns, b.output<T>(0) + at);
      }
    }
  });
}

}  // namespace backends::reference
