// The sizes and numbers of the optimizers' updates, sgd and adamw.
#ifndef RT_SDK_UPDATES_H_
#define RT_SDK_UPDATES_H_

#include "rt/sdk/expect.h"

namespace rt::sdk {

// What all optimizers have in common. They read param, grad, lr [1], scale [1] and write param;
// they have state tensors from input 4 and output 1 on. The last output may be `narrow`, the new
// parameter in 16 bits.
struct Update {
  int64_t count;        // of elements
  uint32_t states;      // tensors of state
  bool writes_narrow;   // output 1 + states exists
  double weight_decay;  // 0: none
};

// Checks the operands of an update with `states` tensors of state, which have these names, and
// `more` inputs behind them. The parameters have the type `dtype`, and `narrow` that or one of 16
// bits. Throws the errors of rt/sdk/expect.h, as the functions below do.
inline Update read_update(const Operation& op, rt_dtype dtype, uint32_t states,
                          const char* const* names, uint32_t more = 0) {
  const Dims dims = dims_of(op.input(0));
  const bool narrow = op.output_count() == states + 2;
  expect_counts(op, 4 + states + more, 1 + states + (narrow ? 1 : 0));
  expect_input(op, 1, "grad", dtype, dims);
  expect_input(op, 2, "lr", dtype, {1});
  expect_input(op, 3, "scale", dtype, {1});
  expect_output(op, 0, "param", dtype, dims);
  for (uint32_t i = 0; i < states; ++i) {
    expect_input(op, 4 + i, names[i], dtype, dims);
    expect_output(op, 1 + i, names[i], dtype, dims);
  }
  if (narrow) {
    const rt_dtype own = op.output(1 + states).dtype;
    expect_output(op, 1 + states, "narrow", is_sixteen_bit(own) ? own : dtype, dims);
  }
  return {product(dims), states, narrow, op.number(RT_ATTR_WEIGHT_DECAY, 0.0)};
}

// The attributes of sgd. Equivalent to: torch.optim.SGD.
struct SgdUpdate : Update {
  double momentum;  // 0: there is no velocity
  bool nesterov;    // Nesterov's momentum
};
// Reads and checks sgd, whose state is the velocity, with momentum.
inline SgdUpdate sgd_update(const Operation& op, rt_dtype dtype) {
  const double momentum = op.number(RT_ATTR_MOMENTUM, 0.0);
  const char* const names[] = {"velocity"};
  return {read_update(op, dtype, momentum != 0 ? 1 : 0, names), momentum,
          op.integer(RT_ATTR_NESTEROV, 0) != 0};
}

// The attributes of adamw. Equivalent to: torch.optim.AdamW.
struct AdamWUpdate : Update {
  double beta1, beta2, epsilon;  // 0 <= beta < 1
};
// Returns the attribute `name`, which must be at least 0 and less than 1.
inline double beta_of(const Operation& op, const char* name) {
  const double beta = op.number(name);
  if (beta >= 0 && beta < 1) return beta;
  op.fail(format("%s is %g, expected 0 <= %s < 1", name, beta, name));
}
// Reads and checks adamw, whose states are m and v; input 6 is the number of the step, int64 [1].
inline AdamWUpdate adamw_update(const Operation& op, rt_dtype dtype) {
  const char* const names[] = {"m", "v"};
  const Update update = read_update(op, dtype, 2, names, 1);
  expect_input(op, 6, "step", RT_INT64, {1});
  return {update, beta_of(op, RT_ATTR_BETA1), beta_of(op, RT_ATTR_BETA2),
          op.number(RT_ATTR_EPSILON)};
}

}  // namespace rt::sdk

#endif  // RT_SDK_UPDATES_H_
