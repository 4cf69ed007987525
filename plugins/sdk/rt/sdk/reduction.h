// The sizes of reduce.
#ifndef RT_SDK_REDUCTION_H_
#define RT_SDK_REDUCTION_H_

#include "rt/sdk/expect.h"

namespace rt::sdk {

// The sizes of x and of its result y.
struct ReductionShape {
  int64_t function;     // RT_REDUCE_*
  int64_t axes;         // bit d: axis d of the input is reduced
  int64_t results;      // number of results
  int64_t reduced;      // number of elements that each result comes from
  Dims input;           // dims of x
  Dims result_strides;  // strides of y over the axes of x, 0 along the reduced ones
};

// Checks that axes exist.
inline int64_t reduced_axes(const Operation& op, size_t rank) {
  const int64_t axes = op.integer(RT_ATTR_AXES);
  if (axes >= 0 && axes >> rank == 0) return axes;
  op.fail(format("axes is the mask 0x%llx, expected bits below the rank %zu only",
                 static_cast<unsigned long long>(axes), rank));
}

// Reads x -> y, both of the type `dtype`; y keeps the reduced axes with length 1 or leaves them
// out. Throws the errors of rt/sdk/expect.h.
inline ReductionShape reduction_shape(const Operation& op, rt_dtype dtype) {
  expect_counts(op, 1, 1);
  ReductionShape r{};
  r.function = op.integer(RT_ATTR_FUNCTION);
  if (r.function < RT_REDUCE_SUM || r.function > RT_REDUCE_MAX) {
    op.fail(format("function is %lld, expected 1 (sum), 2 (mean) or 3 (max)",
                   static_cast<long long>(r.function)));
  }
  r.input = dims_of(op.input(0));
  r.axes = reduced_axes(op, r.input.size());
  Dims kept, squeezed;
  r.reduced = 1;
  for (size_t d = 0; d < r.input.size(); ++d) {
    const bool reduce = (r.axes >> d & 1) != 0;
    kept.push_back(reduce ? 1 : r.input[d]);
    if (!reduce) squeezed.push_back(r.input[d]);
    if (reduce) r.reduced *= r.input[d];
  }
  if (dims_of(op.output(0)) != squeezed) expect_output(op, 0, "y", dtype, kept);
  expect_output(op, 0, "y", dtype, dims_of(op.output(0)));
  r.results = product(kept);
  r.result_strides = strides_of(kept);
  for (size_t d = 0; d < kept.size(); ++d) {
    if (r.axes >> d & 1) r.result_strides[d] = 0;
  }
  return r;
}

}  // namespace rt::sdk

#endif  // RT_SDK_REDUCTION_H_
