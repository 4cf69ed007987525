// The optimizers
#include "plugins/conformance/builder.h"

namespace plugins::conformance {
namespace {

// param, grad, lr, scale
Builder common(const char* op, rt_dtype dtype, const Dims& dims, const std::string& name) {
  Builder b(op, dtype, label(dims) + " " + name);
  b.in(dims).in(dims).in({1}, Values{0.05, 0.2}).in({1}, Values{0.5, 1.0});
  return b;
}

}  // namespace

void add_optimizers(Cases& cases, rt_dtype dtype) {
  for (const Dims& dims : {Dims{1}, Dims{37}, Dims{50, 5, 5, 20}}) {
    for (const double decay : {0.0, 0.1}) {
      const std::string name = "decay " + std::to_string(decay);
      cases.push_back(common(RT_OP_SGD, dtype, dims, name)
                          .out(dims)
                          .number(RT_ATTR_WEIGHT_DECAY, decay)
                          .mandatory());
      for (const int64_t nesterov : {0, 1}) {
        cases.push_back(
            common(RT_OP_SGD, dtype, dims, name + (nesterov ? " nesterov" : " momentum"))
                .in(dims)
                .out(dims)
                .out(dims)
                .number(RT_ATTR_MOMENTUM, 0.9)
                .integer(RT_ATTR_NESTEROV, nesterov)
                .number(RT_ATTR_WEIGHT_DECAY, decay));
      }
      cases.push_back(common(RT_OP_ADAMW, dtype, dims, name)
                          .in(dims)
                          .in(dims, Values{0.01, 1.0})
                          .in_of(RT_INT64, {1}, Values{3, 4, 7})
                          .out(dims)
                          .out(dims)
                          .out(dims)
                          .number(RT_ATTR_BETA1, 0.9)
                          .number(RT_ATTR_BETA2, 0.999)
                          .number(RT_ATTR_EPSILON, 1e-8)
                          .number(RT_ATTR_WEIGHT_DECAY, decay));
    }
  }
}

}  // namespace plugins::conformance
