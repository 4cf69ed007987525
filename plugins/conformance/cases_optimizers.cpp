// Optimizers and loss_scale.
#include <limits>

#include "plugins/conformance/builder.h"

namespace plugins::conformance {
namespace {

// The common inputs: param, grad, lr, scale.
Builder common(const char* op, rt_dtype dtype, const Dims& dims, const std::string& name) {
  Builder b(op, dtype, label(dims) + " " + name);
  b.in(dims).in(dims).in({1}, Values{0.05, 0.2}).in({1}, Values{0.5, 1.0});
  return b;
}

// The other inputs and the outputs of adamw: moments and step.
Builder with_moments(Builder b, const Dims& dims, double decay) {
  b.wide_in(dims)
      .wide_in(dims, Values{0.01, 1.0})
      .in_of(RT_INT64, {1}, Values{3, 4, 7})
      .wide_out(dims)
      .wide_out(dims)
      .wide_out(dims)
      .number(RT_ATTR_BETA1, 0.9)
      .number(RT_ATTR_BETA2, 0.999)
      .number(RT_ATTR_EPSILON, 1e-8)
      .number(RT_ATTR_WEIGHT_DECAY, decay);
  return b;
}

constexpr double kNotFinite = std::numeric_limits<double>::infinity();

void add_loss_scale(Cases& cases, rt_dtype dtype) {
  struct Form {
    const char* name;
    Values sum, state;
    double max_norm;
  };
  const Form forms[] = {{"finite", {4.0, 9.0}, {2.0, 90.0}, 0},
                        {"clipped", {4e4, 9e4}, {2.0, 4.0}, 0.5},
                        {"doubles", {4.0, 9.0}, {1999.0, 1999.0}, 0},
                        {"not finite", {kNotFinite, kNotFinite}, {2.0, 90.0}, 0}};
  for (const Form& f : forms) {
    cases.push_back(Builder(RT_OP_LOSS_SCALE, dtype, f.name)
                        .in({1}, f.sum)
                        .in({3}, f.state)
                        .out({1})
                        .out({3})
                        .number(RT_ATTR_MAX_NORM, f.max_norm));
  }
}

// With scale 0 nothing changes, whatever the gradient holds.
void add_left_out(Cases& cases, rt_dtype dtype) {
  const Dims dims = {37};
  const auto begin = [&](const char* op, const char* name) {
    Builder b(op, dtype, std::string(name) + " left out");
    b.in(dims).in(dims, {kNotFinite, kNotFinite}).in({1}, {0.05, 0.2}).in({1}, {0.0, 0.0});
    return b;
  };
  cases.push_back(begin(RT_OP_SGD, "plain").out(dims).number(RT_ATTR_WEIGHT_DECAY, 0.1));
  cases.push_back(
      begin(RT_OP_SGD, "momentum").in(dims).out(dims).out(dims).number(RT_ATTR_MOMENTUM, 0.9));
  cases.push_back(with_moments(begin(RT_OP_ADAMW, "adamw"), dims, 0.1));
}

// Updates in float32 that also write the new parameter in 16 bits, with scale 0 the unchanged one.
void add_narrow(Cases& cases, rt_dtype narrow) {
  for (const Dims& dims : {Dims{1}, Dims{37}, Dims{50, 5, 5, 20}}) {
    for (const double scale : {0.75, 0.0}) {
      const auto begin = [&](const char* op, const std::string& name) {
        Builder b(op, narrow, label(dims) + " " + name + (scale == 0 ? " left out" : ""));
        b.wide_in(dims).wide_in(dims).wide_in({1}, {0.05, 0.2}).wide_in({1}, {scale, scale});
        return b;
      };
      cases.push_back(begin(RT_OP_SGD, "plain").wide_out(dims).out(dims));
      cases.push_back(begin(RT_OP_SGD, "momentum")
                          .wide_in(dims)
                          .wide_out(dims)
                          .wide_out(dims)
                          .out(dims)
                          .number(RT_ATTR_MOMENTUM, 0.9)
                          .number(RT_ATTR_WEIGHT_DECAY, 0.1));
      cases.push_back(with_moments(begin(RT_OP_ADAMW, "adamw"), dims, 0.1).out(dims));
    }
  }
}

}  // namespace

void add_optimizers(Cases& cases, rt_dtype dtype) {
  if (is_sixteen_bit(dtype)) return add_narrow(cases, dtype);
  add_loss_scale(cases, dtype);
  add_left_out(cases, dtype);
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
      cases.push_back(with_moments(common(RT_OP_ADAMW, dtype, dims, name), dims, decay));
    }
  }
}

}  // namespace plugins::conformance
