// Families of gated activations and rotary positions.
#include "rt/operations.h"
#include "tests/differential/operations/family.h"

namespace differential {
namespace {

Parameter gate_function() { return choice("function", {10, 1, 2, 3, 4, 5}); }

Family gated_activation() {
  Family f{.operation = RT_OP_GATED_ACTIVATION,
           .parameters = with(shape_parameters(), {gate_function()})};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    return Builder(RT_OP_GATED_ACTIVATION, dtype, "")
        .in(shape_of(s), Values{-6.0, 6.0})
        .in(shape_of(s))
        .out(shape_of(s))
        .integer(RT_ATTR_FUNCTION, s["function"])
        .get();
  };
  f.huge = 1e10;
  f.not_finite = NotFinite::kAny;
  return f;
}

Family gated_activation_backward() {
  Family f{.operation = RT_OP_GATED_ACTIVATION_BACKWARD,
           .parameters = with(shape_parameters(), {gate_function()})};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    return Builder(RT_OP_GATED_ACTIVATION_BACKWARD, dtype, "")
        .in(shape_of(s))
        .in(shape_of(s), Values{-6.0, 6.0})
        .in(shape_of(s))
        .out(shape_of(s))
        .out(shape_of(s))
        .integer(RT_ATTR_FUNCTION, s["function"])
        .get();
  };
  f.huge = 1e8;  // the tanh approximation computes a cube
  f.not_finite = NotFinite::kAny;
  return f;
}

// turns has a row for each place, or one for each token.
Family rotary() {
  Family f{.operation = RT_OP_ROTARY,
           .parameters = {size_or_none("n", 6), size("places", 40), size("half", 40),
                          choice("copied", {0, 0, 1, 3, 8}), choice("heads", {1, 2, 3, 8}),
                          flag("by_token"), flag("inverse")}};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const int64_t turned = 2 * s["half"], width = turned + s["copied"];
    if (s["by_token"] && s["n"] == 0) return std::nullopt;
    const Dims x = {s["n"], s["places"], s["heads"] * width};
    return Builder(RT_OP_ROTARY, dtype, "")
        .in(x)
        .wide_in(s["by_token"] ? Dims{s["n"], s["places"], turned} : Dims{s["places"], turned})
        .out(x)
        .integer(RT_ATTR_HEADS, s["heads"])
        .integer(RT_ATTR_INVERSE, s["inverse"])
        .get();
  };
  f.huge = 1e15;
  f.not_finite = NotFinite::kAny;
  return f;
}

}  // namespace

void add_gated(Families& families) {
  families.push_back(gated_activation());
  families.push_back(gated_activation_backward());
  families.push_back(rotary());
}

}  // namespace differential
