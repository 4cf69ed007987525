// The families (family.h) of sgd and adamw.
#include "rt/operations.h"
#include "tests/differential/operations/family.h"

namespace differential {
namespace {

// A step with scale 0 is skipped, whatever the gradient holds.
std::vector<Parameter> step_parameters() {
  return {size_or_none("rows", 300), size_or_none("columns", 140), flag("matrix"), flag("left_out"),
          choice("decay", {0, 1, 10})};
}

Dims param_of(const Sizes& s) {
  if (s["matrix"]) return {s["rows"], s["columns"]};
  return {s["rows"]};
}

// The operands that all optimizers begin with: param, grad, lr, scale.
Builder common(const char* operation, const Sizes& s, rt_dtype dtype) {
  const Values scale = s["left_out"] ? Values{0.0, 0.0} : Values{0.5, 1.0};
  Builder b(operation, dtype, "");
  b.in(param_of(s)).in(param_of(s)).in({1}, Values{0.05, 0.2}).in({1}, scale);
  return b.number(RT_ATTR_WEIGHT_DECAY, static_cast<double>(s["decay"]) / 100);
}

Family sgd() {
  Family f{.operation = RT_OP_SGD, .parameters = step_parameters()};
  f.parameters.push_back(choice("momentum", {0, 90, 99}));  // in hundredths
  f.parameters.push_back(flag("nesterov"));
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    if (s["momentum"] == 0 && s["nesterov"]) return std::nullopt;
    Builder b = common(RT_OP_SGD, s, dtype);
    b.out(param_of(s));
    if (s["momentum"] == 0) return b.get();
    return b.in(param_of(s))
        .out(param_of(s))
        .number(RT_ATTR_MOMENTUM, static_cast<double>(s["momentum"]) / 100)
        .integer(RT_ATTR_NESTEROV, s["nesterov"])
        .get();
  };
  return f;
}

double beta_of(int64_t ten_thousandths) { return 1.0 - static_cast<double>(ten_thousandths) / 1e4; }

Family adamw() {
  Family f{.operation = RT_OP_ADAMW, .parameters = step_parameters()};
  f.parameters.push_back(choice("rest1", {1000, 1, 100, 5000}));  // in ten-thousandths of 1 - beta1
  f.parameters.push_back(choice("rest2", {10, 1, 500}));
  f.parameters.push_back(choice("step", {1, 2, 10, 1000, 100000}));
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const Dims dims = param_of(s);
    const auto step = static_cast<double>(s["step"]);
    return common(RT_OP_ADAMW, s, dtype)
        .in(dims)
        .in(dims, Values{0.01, 1.0})
        .in_of(RT_INT64, {1}, Values{step, step + 1, 7})
        .out(dims)
        .out(dims)
        .out(dims)
        .number(RT_ATTR_BETA1, beta_of(s["rest1"]))
        .number(RT_ATTR_BETA2, beta_of(s["rest2"]))
        .number(RT_ATTR_EPSILON, 1e-8)
        .get();
  };
  f.huge = 1e8;  // the square of grad times scale is computed
  return f;
}

}  // namespace

void add_optimizers(Families& families) {
  families.push_back(sgd());
  families.push_back(adamw());
}

}  // namespace differential
