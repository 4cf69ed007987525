// Conformance cases of embedding and of the operations that only move data.
#include "plugins/conformance/builder.h"

namespace plugins::conformance {
namespace {

void add_embedding(Cases& cases, rt_dtype dtype) {
  struct Lookup {
    Dims indices;
    int64_t rows, width;
  };
  const std::vector<Lookup> lookups = {
      {{5}, 3, 4},          {{4, 7}, 50, 20}, {{1}, 1, 1},
      {{64}, 40, 32},       {{9}, 5, 520},  // rows longer than a warp loads at once
      {{9}, 5, 333},                        // and of odd length
      {{4000}, 2, 8},                       // one row is named thousands of times
      {{3, 700}, 1, 33},                    // or by all indices
      {{2, 2500}, 700, 12},                 // some hundreds of rows, some times each
      {{1025}, 300000, 1}};                 // most rows are not named
  for (const Lookup& l : lookups) {
    const Values indices{0.0, static_cast<double>(l.rows), 5};
    Dims y = l.indices;
    y.push_back(l.width);
    const Dims table = {l.rows, l.width};
    const std::string name = label(l.indices) + " of " + label(table);
    cases.push_back(
        Builder(RT_OP_EMBEDDING, dtype, name).in_of(RT_INT32, l.indices, indices).in(table).out(y));
    cases.push_back(Builder(RT_OP_EMBEDDING_BACKWARD, dtype, name)
                        .in_of(RT_INT32, l.indices, indices)
                        .in(y)
                        .out(table));
    // The table is a slice of a larger one; some indices mean rows before the slice or after it.
    const Values others{0.0, static_cast<double>(l.rows + 4), 5};
    cases.push_back(Builder(RT_OP_EMBEDDING, dtype, name + " a part")
                        .in_of(RT_INT32, l.indices, others)
                        .in(table)
                        .out(y)
                        .integer(RT_ATTR_FIRST_ROW, 2));
    cases.push_back(Builder(RT_OP_EMBEDDING_BACKWARD, dtype, name + " a part")
                        .in_of(RT_INT32, l.indices, others)
                        .in(y)
                        .out(table)
                        .integer(RT_ATTR_FIRST_ROW, 2));
  }
}

void add_transpose(Cases& cases, rt_dtype dtype) {
  const Dims x = {2, 3, 4, 5};
  for (const Dims& order :
       {Dims{0, 3, 1, 2}, Dims{3, 2, 1, 0}, Dims{0, 1, 2, 3}, Dims{1, 0, 3, 2}}) {
    Dims y;
    int64_t permutation = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      y.push_back(x[static_cast<size_t>(order[i])]);
      permutation |= order[i] << (4 * i);
    }
    cases.push_back(Builder(RT_OP_TRANSPOSE, dtype, label(order))
                        .in(x)
                        .out(y)
                        .integer(RT_ATTR_PERMUTATION, permutation));
  }
  // The last dimension stays the last, as when heads of attention are moved.
  cases.push_back(Builder(RT_OP_TRANSPOSE, dtype, "of rows")
                      .in({2, 3, 5, 16})
                      .out({2, 5, 3, 16})
                      .integer(RT_ATTR_PERMUTATION, 0x3120));
  cases.push_back(Builder(RT_OP_TRANSPOSE, dtype, "matrix")
                      .in({33, 17})
                      .out({17, 33})
                      .integer(RT_ATTR_PERMUTATION, 0x01));
}

void add_parts(Cases& cases, rt_dtype dtype) {
  // Slices of 16 columns from column 16 on, which may be moved several elements at a time.
  const Dims rows = {5, 48}, columns = {5, 16};
  cases.push_back(Builder(RT_OP_SLICE, dtype, "columns")
                      .in(rows)
                      .out(columns)
                      .integer(RT_ATTR_AXIS, 1)
                      .integer(RT_ATTR_START, 16));
  cases.push_back(Builder(RT_OP_PAD, dtype, "columns")
                      .in(columns)
                      .out(rows)
                      .integer(RT_ATTR_AXIS, 1)
                      .integer(RT_ATTR_START, 16));
  cases.push_back(Builder(RT_OP_CONCAT, dtype, "columns")
                      .in(columns)
                      .in({5, 32})
                      .out(rows)
                      .integer(RT_ATTR_AXIS, 1));
  for (int64_t axis = 0; axis < 3; ++axis) {
    const auto length = [axis](int64_t l) {
      Dims dims = {3, 4, 5};
      dims[static_cast<size_t>(axis)] = l;
      return dims;
    };
    const std::string name = "axis " + std::to_string(axis);
    cases.push_back(Builder(RT_OP_CONCAT, dtype, name)
                        .in(length(2))
                        .in(length(1))
                        .in(length(6))
                        .out(length(9))
                        .integer(RT_ATTR_AXIS, axis));
    cases.push_back(Builder(RT_OP_SLICE, dtype, name)
                        .in(length(9))
                        .out(length(4))
                        .integer(RT_ATTR_AXIS, axis)
                        .integer(RT_ATTR_START, 3));
    cases.push_back(Builder(RT_OP_PAD, dtype, name)
                        .in(length(4))
                        .out(length(9))
                        .integer(RT_ATTR_AXIS, axis)
                        .integer(RT_ATTR_START, 3));
  }
}

void add_cast(Cases& cases, rt_dtype dtype) {
  const Dims dims = {5, 7};
  // Casts between a wide and a 16-bit type belong to the cases of the 16-bit type.
  for (const rt_dtype other : {RT_FLOAT32, RT_FLOAT64, RT_FLOAT16, RT_BFLOAT16}) {
    if (other == dtype || (is_sixteen_bit(other) && !is_sixteen_bit(dtype))) continue;
    const std::string name = rt::sdk::to_string(other);
    cases.push_back(Builder(RT_OP_CAST, dtype, "to " + name).in(dims).out_of(other, dims));
    if (!is_sixteen_bit(dtype)) continue;
    cases.push_back(
        Builder(RT_OP_CAST, dtype, "from " + name).in_of(other, dims, Values{}).out(dims));
  }
  for (const rt_dtype integer : {RT_INT32, RT_INT64, RT_UINT8}) {
    const std::string name = rt::sdk::to_string(integer);
    cases.push_back(Builder(RT_OP_CAST, dtype, "from " + name)
                        .in_of(integer, dims, Values{0, 100, 1})
                        .out(dims));
    cases.push_back(Builder(RT_OP_CAST, dtype, "to " + name)
                        .in(dims, Values{0.0, 100.0})
                        .out_of(integer, dims));
  }
}

}  // namespace

void add_movement(Cases& cases, rt_dtype dtype) {
  add_embedding(cases, dtype);
  add_transpose(cases, dtype);
  add_parts(cases, dtype);
  add_cast(cases, dtype);
  for (const Dims& dims : {Dims{}, Dims{13}, Dims{3, 7}, Dims{2, 5, 5, 20}, Dims{50, 5, 5, 20}}) {
    cases.push_back(Builder(RT_OP_COPY, dtype, label(dims)).in(dims).out(dims).mandatory());
    cases.push_back(
        Builder(RT_OP_FILL, dtype, label(dims)).out(dims).number(RT_ATTR_VALUE, 1.5).mandatory());
  }
}

}  // namespace plugins::conformance
