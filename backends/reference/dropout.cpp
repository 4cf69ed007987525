// dropout: x [N,...], step int64 [1], base int64 [1] -> y. The mask depends on the global index
// base + n of a sample, so it is the same however a batch is split.
#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "rt/sdk/philox.h"

namespace backends::reference {
namespace {

using rt::sdk::PhiloxCounter;
using rt::sdk::PhiloxKey;

struct Dropout {
  int64_t samples, sample_elements;
  double probability;
  PhiloxKey key;
  uint32_t stream;
  // The columns of a tensor-parallel slice; `columns` is 0 if x is not a slice.
  int64_t columns, whole_columns, first_column;

  // The index that element e of a sample of this slice has in the sample before slicing.
  int64_t number_of(int64_t e) const {
    return columns == 0 ? e : e / columns * whole_columns + first_column + e % columns;
  }
};

template <typename T>
void dropout(const Dropout& d, const Buffers& b) {
  const T* x = b.input<T>(0);
  const auto step = static_cast<uint32_t>(*b.input<int64_t>(1));
  const int64_t base = *b.input<int64_t>(2);
  T* y = b.output<T>(0);
  const double keep_scale = 1.0 / (1.0 - d.probability);
  for (int64_t n = 0; n < d.samples; ++n) {
    PhiloxCounter words{};
    int64_t group = -1;
    for (int64_t e = 0; e < d.sample_elements; ++e) {
      const int64_t number = d.number_of(e);
      if (number / 4 != group) {
        group = number / 4;
        words = rt::sdk::philox4x32_10(
            {static_cast<uint32_t>(group), static_cast<uint32_t>(base + n), step, d.stream}, d.key);
      }
      const double u = (words[number % 4] >> 8) * 0x1p-24;
      const int64_t i = n * d.sample_elements + e;
      y[i] = u >= d.probability ? static_cast<T>(x[i] * keep_scale) : T(0);
    }
  }
}

}  // namespace

Kernel make_dropout(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "x");
  expect_counts(op, 3, 1);
  const Dims x = dims_of(input_of_min_rank(op, 0, "x", 1));
  expect_input(op, 1, "step", RT_INT64, {1});
  expect_input(op, 2, "base", RT_INT64, {1});
  expect_output(op, 0, "y", dtype, x);
  Dropout d{};
  d.samples = x[0];
  d.sample_elements = product(Dims(x.begin() + 1, x.end()));
  d.probability = op.number(RT_ATTR_PROBABILITY);
  if (!(d.probability >= 0 && d.probability < 1)) {
    op.fail(rt::sdk::format("probability is %g, expected 0 <= probability < 1", d.probability));
  }
  d.columns = integer_at_least(op, RT_ATTR_COLUMNS, 0, 0);
  d.first_column = integer_at_least(op, RT_ATTR_FIRST_COLUMN, 0, 0);
  d.whole_columns =
      integer_at_least(op, RT_ATTR_WHOLE_COLUMNS, d.columns, d.first_column + d.columns);
  const auto seed = static_cast<uint64_t>(op.integer(RT_ATTR_SEED));
  d.key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  d.stream = static_cast<uint32_t>(op.integer(RT_ATTR_STREAM));
  return floating_kernel(dtype, {.in_place = {1u << 0}},
                         [d]<typename T>(const Buffers& b) { dropout<T>(d, b); });
}

}  // namespace backends::reference
