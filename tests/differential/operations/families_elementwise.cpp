// Families of element-wise operations and reductions.
#include "rt/operations.h"
#include "tests/differential/operations/family.h"

namespace differential {
namespace {

Family activation() {
  Family f{.operation = RT_OP_ACTIVATION,
           .parameters = with(shape_parameters(),
                              {choice("function", {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13})})};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    return Builder(RT_OP_ACTIVATION, dtype, "")
        .in(shape_of(s), Values{-6.0, 6.0})
        .out(shape_of(s))
        .integer(RT_ATTR_FUNCTION, s["function"])
        .get();
  };
  return f;
}

Family activation_backward() {
  Family f{.operation = RT_OP_ACTIVATION_BACKWARD,
           .parameters = with(shape_parameters(), {choice("function", {1, 2, 3, 4, 5})})};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    return Builder(RT_OP_ACTIVATION_BACKWARD, dtype, "")
        .in(shape_of(s))
        .in(shape_of(s))
        .out(shape_of(s))
        .integer(RT_ATTR_FUNCTION, s["function"])
        .get();
  };
  f.huge = 1e10;  // the tanh approximation computes a cube
  return f;
}

// The dimensions of an operand that broadcasts to `dims`: the first `left_out` dimensions are
// missing, and bit i of `repeated` makes dimension i 1.
Dims broadcast_from(const Dims& dims, int64_t left_out, int64_t repeated) {
  Dims operand;
  for (size_t i = static_cast<size_t>(left_out); i < dims.size(); ++i) {
    operand.push_back(repeated >> i & 1 ? 1 : dims[i]);
  }
  return operand;
}

Family arithmetic(const char* operation, double huge) {
  const Parameter left_out_of_b = choice("left_out_of_b", {0, 0, 0, 1, 2, 3, 4});
  const Parameter repeated_in_b = choice("repeated_in_b", {0, 0, 0, 1, 2, 3, 5, 7, 8, 15});
  Family f{.operation = operation,
           .parameters =
               with(shape_parameters(), {choice("left_out_of_a", {0, 0, 0, 0, 0, 0, 1, 2}),
                                         choice("repeated_in_a", {0, 0, 0, 0, 0, 0, 1, 2, 4, 6}),
                                         left_out_of_b, repeated_in_b})};
  f.build = [operation](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const Dims dims = shape_of(s);
    const auto rank = static_cast<int64_t>(dims.size());
    if (s["left_out_of_a"] > rank || s["left_out_of_b"] > rank) return std::nullopt;
    return Builder(operation, dtype, "")
        .in(broadcast_from(dims, s["left_out_of_a"], s["repeated_in_a"]))
        .in(broadcast_from(dims, s["left_out_of_b"], s["repeated_in_b"]))
        .out(dims)
        .get();
  };
  f.huge = huge;
  return f;
}

Family scale() {
  Family f{.operation = RT_OP_SCALE,
           .parameters = with(shape_parameters(),
                              {choice("alpha", {1, -3, 0, 2, 5}), choice("beta", {0, -1, 7})})};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    return Builder(RT_OP_SCALE, dtype, "")
        .in(shape_of(s))
        .out(shape_of(s))
        .number(RT_ATTR_ALPHA, static_cast<double>(s["alpha"]) / 3)
        .number(RT_ATTR_BETA, static_cast<double>(s["beta"]) / 7)
        .get();
  };
  return f;
}

// In half of the cases x holds a slice of the columns of its samples only.
Family dropout() {
  Family f{.operation = RT_OP_DROPOUT,
           .parameters = {size_or_none("n", 40), choice("rank", {3, 3, 2, 1}), size("rows", 20),
                          size("columns", 40), choice("percent", {0, 10, 25, 50, 90, 100}),
                          flag("part"), size("columns_after", 9, 0), size("first_column", 9, 0),
                          choice("stream", {0, 1, 3, 100000}), flag("large_base")}};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    if (s["percent"] == 100) return std::nullopt;  // nothing is kept, and the scale is infinite
    const int64_t columns = s["rank"] > 1 ? s["columns"] : 1;
    Dims dims = {s["n"]};
    if (s["rank"] > 2) dims.push_back(s["rows"]);
    if (s["rank"] > 1) dims.push_back(columns);
    Builder b(RT_OP_DROPOUT, dtype, "");
    b.in(dims).in_of(RT_INT64, {1}, Values{0, 1000, 3});
    b.in_of(RT_INT64, {1}, Values{0, s["large_base"] ? 5e9 : 100.0, 4}).out(dims);
    b.number(RT_ATTR_PROBABILITY, static_cast<double>(s["percent"]) / 100);
    b.integer(RT_ATTR_SEED, 0x123456789ABCDEF).integer(RT_ATTR_STREAM, s["stream"]);
    if (s["part"]) {
      b.integer(RT_ATTR_COLUMNS, columns).integer(RT_ATTR_FIRST_COLUMN, s["first_column"]);
      b.integer(RT_ATTR_WHOLE_COLUMNS, s["first_column"] + columns + s["columns_after"]);
    }
    return b.get();
  };
  return f;
}

// Reduced axes are removed from y, or stay with length 1.
Dims reduced(const Dims& x, int64_t axes, bool keep) {
  Dims y;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!(axes >> i & 1)) {
      y.push_back(x[i]);
    } else if (keep) {
      y.push_back(1);
    }
  }
  return y;
}

Family reduce() {
  Family f{.operation = RT_OP_REDUCE,
           .parameters = with(shape_parameters(),
                              {choice("function", {RT_REDUCE_SUM, RT_REDUCE_MEAN, RT_REDUCE_MAX}),
                               size("axes", 15, 0), flag("keep")})};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const Dims x = shape_of(s);
    if (s["axes"] >> x.size() != 0) return std::nullopt;
    // The mean and the maximum of no elements are not defined.
    bool none = false;
    for (size_t i = 0; i < x.size(); ++i) none = none || ((s["axes"] >> i & 1) && x[i] == 0);
    if (none && s["function"] != RT_REDUCE_SUM) return std::nullopt;
    return Builder(RT_OP_REDUCE, dtype, "")
        .in(x)
        .out(reduced(x, s["axes"], s["keep"]))
        .integer(RT_ATTR_FUNCTION, s["function"])
        .integer(RT_ATTR_AXES, s["axes"])
        .get();
  };
  return f;
}

Family square_sum() {
  Family f{.operation = RT_OP_SQUARE_SUM, .parameters = shape_parameters()};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    return Builder(RT_OP_SQUARE_SUM, dtype, "").in(shape_of(s)).wide_out({1}).get();
  };
  f.huge = 1e15;
  return f;
}

Family clip_scale() {
  Family f{.operation = RT_OP_CLIP_SCALE,
           .parameters = {choice("tenths", {10, 1, 5, 1000}), choice("square", {9, 0, 1, 1000})}};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const auto square = static_cast<double>(s["square"]);
    return Builder(RT_OP_CLIP_SCALE, dtype, "")
        .in({1}, Values{square, square * 1.5})
        .out({1})
        .number(RT_ATTR_MAX_NORM, static_cast<double>(s["tenths"]) / 10)
        .get();
  };
  return f;
}

Family loss_scale() {
  Family f{.operation = RT_OP_LOSS_SCALE,
           .parameters = {choice("tenths", {0, 1, 5, 1000}), choice("square", {9, 0, 1, 1000}),
                          choice("state", {100, 2, 1999})}};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const auto square = static_cast<double>(s["square"]), state = static_cast<double>(s["state"]);
    return Builder(RT_OP_LOSS_SCALE, dtype, "")
        .in({1}, Values{square, square * 1.5})
        .in({3}, Values{state, state})
        .out({1})
        .out({3})
        .number(RT_ATTR_MAX_NORM, static_cast<double>(s["tenths"]) / 10)
        .get();
  };
  f.counters = 2;
  return f;
}

}  // namespace

void add_elementwise(Families& families) {
  families.push_back(activation());
  families.push_back(activation_backward());
  families.push_back(arithmetic(RT_OP_ADD, 1e30));
  families.push_back(arithmetic(RT_OP_SUBTRACT, 1e30));
  families.push_back(arithmetic(RT_OP_MULTIPLY, 1e15));
  families.push_back(arithmetic(RT_OP_DIVIDE, 1e15));
  families.push_back(scale());
  families.push_back(dropout());
}

void add_reductions(Families& families) {
  families.push_back(reduce());
  families.push_back(square_sum());
  families.push_back(clip_scale());
  families.push_back(loss_scale());
}

}  // namespace differential
