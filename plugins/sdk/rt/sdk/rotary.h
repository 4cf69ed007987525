// The sizes of `rotary`.
#ifndef RT_SDK_ROTARY_H_
#define RT_SDK_ROTARY_H_

#include "rt/sdk/expect.h"

namespace rt::sdk {

// x as rows of `heads` heads of `width` columns; `half` pairs of columns of each head are turned.
// Row i turns by row i % turn_rows of turns [turn_rows, 2 half].
struct RotaryShape {
  int64_t rows, heads, width, half, turn_rows;
  bool inverse;
};

// Reads x, turns -> y of rotary; turns has the type `wide`, the others `dtype`. Throws Error for
// operands that do not fit.
inline RotaryShape rotary_shape(const Operation& op, rt_dtype dtype, rt_dtype wide) {
  expect_counts(op, 2, 1);
  const Dims x = dims_of(op.input(0)), turns = dims_of(op.input(1));
  const int64_t heads = op.integer(RT_ATTR_HEADS);
  if (x.empty() || heads < 1 || x.back() < 1 || x.back() % heads != 0) {
    op.fail(format("x is %s, expected %lld heads of equal width in its last dimension",
                   to_string(op.input(0)).c_str(), static_cast<long long>(heads)));
  }
  RotaryShape s{
      product(x) / x.back(), heads, x.back() / heads, 0, 0, op.integer(RT_ATTR_INVERSE, 0) != 0};
  if (turns.empty() || turns.back() < 2 || turns.back() % 2 != 0 || turns.back() > s.width) {
    op.fail(format("turns is %s, expected rows of an even number of at most %lld columns",
                   to_string(op.input(1)).c_str(), static_cast<long long>(s.width)));
  }
  s.half = turns.back() / 2;
  s.turn_rows = product(turns) / turns.back();
  if (s.turn_rows < 1 ? s.rows > 0 : s.rows % s.turn_rows != 0) {
    op.fail(format("turns has %lld rows, expected a divisor of the %lld rows of x",
                   static_cast<long long>(s.turn_rows), static_cast<long long>(s.rows)));
  }
  expect_input(op, 1, "turns", wide, turns);
  expect_output(op, 0, "y", dtype, x);
  return s;
}

}  // namespace rt::sdk

#endif  // RT_SDK_ROTARY_H_
