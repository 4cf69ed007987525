// The families (family.h) of embedding look-up and data movement. Only cast and embedding_backward,
// which adds rows, round.
#include <algorithm>

#include "rt/operations.h"
#include "tests/differential/operations/family.h"

namespace differential {
namespace {

Family exact(const char* operation, std::vector<Parameter> parameters,
             const std::function<std::optional<Case>(const Sizes&, rt_dtype)>& build) {
  Family f{.operation = operation, .parameters = std::move(parameters)};
  f.build = build;
  f.comparison = Comparison::kExact;
  return f;
}

// The operand is a slice of the rows of a larger table; some indices lie before or after that
// slice.
Family embedding(const char* operation, bool backward) {
  Family f{
      .operation = operation,
      .parameters = {size_or_none("indices", 300), choice("inner", {0, 0, 1, 7}), size("rows", 900),
                     size_or_none("width", 70), flag("part"), size("first_row", 9, 0)}};
  f.build = [operation, backward](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    Dims indices = {s["indices"]};
    if (s["inner"] > 0) indices.push_back(s["inner"]);
    Dims y = indices;
    y.push_back(s["width"]);
    const Dims table = {s["rows"], s["width"]};
    const int64_t others = s["part"] ? s["first_row"] + 3 : 0;
    Builder b(operation, dtype, "");
    b.in_of(RT_INT32, indices, Values{0.0, static_cast<double>(s["rows"] + others), 5});
    b.in(backward ? y : table).out(backward ? table : y);
    if (s["part"]) b.integer(RT_ATTR_FIRST_ROW, s["first_row"]);
    return b.get();
  };
  f.comparison = backward ? Comparison::kNorm : Comparison::kExact;
  return f;
}

// The permutation of the axes that has this number among all permutations.
Dims permuted_axes(size_t rank, int64_t number) {
  Dims axes;
  for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  for (int64_t i = 0; i < number; ++i) std::next_permutation(axes.begin(), axes.end());
  return axes;
}

std::optional<Case> transpose(const Sizes& s, rt_dtype dtype) {
  const Dims x = shape_of(s), axes = permuted_axes(x.size(), s["order"]);
  Dims y;
  int64_t permutation = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    y.push_back(x[static_cast<size_t>(axes[i])]);
    permutation |= axes[i] << (4 * i);
  }
  return Builder(RT_OP_TRANSPOSE, dtype, "")
      .in(x)
      .out(y)
      .integer(RT_ATTR_PERMUTATION, permutation)
      .get();
}

// A tensor and the lengths along one of its axes.
struct Axis {
  explicit Axis(const Sizes& s) : dims(shape_of(s)), number(s["axis"]) {}
  bool valid() const { return number < static_cast<int64_t>(dims.size()); }
  Dims with(int64_t length) const {
    Dims result = dims;
    result[static_cast<size_t>(number)] = length;
    return result;
  }
  Dims dims;
  int64_t number;
};

std::vector<Parameter> axis_parameters(const std::vector<Parameter>& more) {
  std::vector<Parameter> list = shape_parameters();
  list.push_back(choice("axis", {0, 1, 2, 3}));
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

std::optional<Case> concat(const Sizes& s, rt_dtype dtype) {
  const Axis axis(s);
  if (!axis.valid()) return std::nullopt;
  Builder b(RT_OP_CONCAT, dtype, "");
  int64_t total = 0;
  for (int64_t i = 0; i < s["operands"]; ++i) {
    const int64_t length = (s["length"] + i * s["more"]) % 9;
    b.in(axis.with(length));
    total += length;
  }
  return b.out(axis.with(total)).integer(RT_ATTR_AXIS, axis.number).get();
}

std::optional<Case> part(const char* operation, const Sizes& s, rt_dtype dtype) {
  const Axis axis(s);
  if (!axis.valid()) return std::nullopt;
  const Dims whole = axis.with(s["start"] + s["length"] + s["after"]);
  const Dims slice = axis.with(s["length"]);
  const bool pads = operation == std::string(RT_OP_PAD);
  return Builder(operation, dtype, "")
      .in(pads ? slice : whole)
      .out(pads ? whole : slice)
      .integer(RT_ATTR_AXIS, axis.number)
      .integer(RT_ATTR_START, s["start"])
      .get();
}

std::vector<Parameter> part_parameters() {
  return axis_parameters({size("start", 9, 0), size("length", 20, 0), size("after", 9, 0)});
}

// The types that cast converts between. Recipes (recipe.h) store an index into this list, so its
// order must not change.
const std::vector<rt_dtype>& cast_types() {
  static const std::vector<rt_dtype> types = {RT_FLOAT32, RT_FLOAT64, RT_FLOAT16, RT_BFLOAT16,
                                              RT_INT32,   RT_INT64,   RT_UINT8};
  return types;
}

bool is_whole(rt_dtype dtype) {
  return dtype == RT_INT32 || dtype == RT_INT64 || dtype == RT_UINT8;
}

Family cast() {
  Family f{.operation = RT_OP_CAST, .parameters = shape_parameters()};
  f.parameters.push_back(choice("other", {1, 2, 3, 4, 5, 6}));
  f.parameters.push_back(flag("back"));
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const rt_dtype other = cast_types()[static_cast<size_t>(s["other"])];
    if (other == dtype) return std::nullopt;
    const rt_dtype from = s["back"] ? other : dtype, to = s["back"] ? dtype : other;
    const bool whole = is_whole(from) || is_whole(to);
    const Values values = whole ? Values{0, 100} : Values{-100, 100};
    return Builder(RT_OP_CAST, dtype, "")
        .in_of(from, shape_of(s), values)
        .out_of(to, shape_of(s))
        .get();
  };
  f.comparison = Comparison::kOwnType;
  // The contract does not define which integer a NaN becomes.
  f.finite_inputs = [](const Sizes& s) { return s["other"] >= 4 && !s["back"] ? 1u : 0u; };
  return f;
}

}  // namespace

void add_movement(Families& families) {
  families.push_back(embedding(RT_OP_EMBEDDING, false));
  families.push_back(embedding(RT_OP_EMBEDDING_BACKWARD, true));
  std::vector<Parameter> order = shape_parameters();
  order.push_back(size("order", 23, 0));
  families.push_back(exact(RT_OP_TRANSPOSE, order, transpose));
  families.push_back(exact(
      RT_OP_CONCAT,
      axis_parameters({size("operands", 12), size("length", 8, 0), choice("more", {0, 1, 4})}),
      concat));
  for (const char* operation : {RT_OP_SLICE, RT_OP_PAD}) {
    families.push_back(
        exact(operation, part_parameters(),
              [operation](const Sizes& s, rt_dtype dtype) { return part(operation, s, dtype); }));
  }
  families.push_back(cast());
  families.push_back(exact(
      RT_OP_COPY, shape_parameters(), [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
        return Builder(RT_OP_COPY, dtype, "").in(shape_of(s)).out(shape_of(s)).get();
      }));
  std::vector<Parameter> fill = shape_parameters();
  fill.push_back(choice("value", {0, 1, -3}));
  families.push_back(
      exact(RT_OP_FILL, fill, [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
        return Builder(RT_OP_FILL, dtype, "")
            .out(shape_of(s))
            .number(RT_ATTR_VALUE, static_cast<double>(s["value"]) / 2)
            .get();
      }));
}

}  // namespace differential
