// Embedding look-up, data movement and dropout.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/native.h"
#include "backends/cpu/parallel.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

using rt::sdk::dtype_bytes;
using rt::sdk::format;

// --- embedding ---

struct Lookup {
  int64_t count, rows, columns;
  int64_t first_row;  // first row of the tensor-parallel slice; -1: the table is whole

  // The row of `table` for an index. If it is outside 0..rows - 1, another tensor-parallel slice of
  // the table has it.
  int64_t row_of(int32_t index) const { return first_row < 0 ? index : index - first_row; }
};

void check_indices(const int32_t* indices, const Lookup& s) {
  for (int64_t i = 0; i < s.count && s.first_row < 0; ++i) {
    if (indices[i] >= 0 && indices[i] < s.rows) continue;
    throw rt::sdk::Error(RT_ERROR_INVALID_ARGUMENT,
                         format("embedding: index %d at position %ld; the table has rows 0 to %ld",
                                indices[i], static_cast<long>(i), static_cast<long>(s.rows - 1)));
  }
}

Lookup check_embedding(const Operation& op, const rt_tensor_desc& table,
                       const rt_tensor_desc& values) {
  const rt_tensor_desc& indices = op.input(0);
  expect_dtype(op, indices, RT_INT32, "indices");
  if (table.dtype != RT_BFLOAT16) expect_dtype(op, table, RT_FLOAT32, "table");
  expect_dtype(op, values, table.dtype, "values");
  const int64_t count = rt::sdk::element_count(indices);
  if (table.rank != 2) op.fail("table must be [V,D]; given " + rt::sdk::to_string(table));
  expect_elements(op, values, count * table.dims[1], "values");
  return {count, table.dims[0], table.dims[1], op.integer(RT_ATTR_FIRST_ROW, -1)};
}

std::unique_ptr<Plan> make_embedding(const NativeContext& context, const Operation& op) {
  expect_counts(op, 2, 1);
  const Lookup s = check_embedding(op, op.input(1), op.output(0));
  const auto row_bytes = s.columns * static_cast<int64_t>(dtype_bytes(op.input(1).dtype));
  return make_plan(context, "native:embedding",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     const int32_t* indices = input<int32_t>(l, 0);
                     const char* table = input<char>(l, 1);
                     char* y = output<char>(l, 0);
                     check_indices(indices, s);
                     parallel_for(threads, s.count, kElementGrain / (s.columns + 1) + 1,
                                  [&](int64_t b, int64_t e) {
                                    for (int64_t i = b; i < e; ++i) {
                                      const int64_t row = s.row_of(indices[i]);
                                      if (row < 0 || row >= s.rows) {
                                        std::memset(y + i * row_bytes, 0,
                                                    static_cast<size_t>(row_bytes));
                                        continue;
                                      }
                                      std::memcpy(y + i * row_bytes, table + row * row_bytes,
                                                  static_cast<size_t>(row_bytes));
                                    }
                                  });
                   });
}

// Each thread owns a range of rows of the table and adds the gradients of these rows in the order
// of the indices. So no two threads write to the same row, and the order of a sum never changes.
std::unique_ptr<Plan> make_embedding_backward(const NativeContext& context, const Operation& op) {
  expect_counts(op, 2, 1);
  const Lookup s = check_embedding(op, op.output(0), op.input(1));
  return make_plan(context, "native:embedding_backward",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     const int32_t* indices = input<int32_t>(l, 0);
                     const float* dy = input<float>(l, 1);
                     float* table = output<float>(l, 0);
                     check_indices(indices, s);
                     parallel_for(threads, s.rows, kElementGrain / (s.columns + 1) + 1,
                                  [&](int64_t b, int64_t e) {
                                    kernel.fill(table + b * s.columns, 0.0f, (e - b) * s.columns);
                                    for (int64_t i = 0; i < s.count; ++i) {
                                      const int64_t row = s.row_of(indices[i]);
                                      if (row < b || row >= e) continue;
                                      kernel.add_to(table + row * s.columns, dy + i * s.columns,
                                                    s.columns);
                                    }
                                  });
                   });
}

// --- transpose ---

// The dims of the output with the stride of each in the input, in elements. Neighbouring dimensions
// that stay together are merged.
struct Permutation {
  int32_t rank = 0;
  std::array<int64_t, RT_MAX_RANK> dims{}, stride{};
  int64_t outer = 1, count = 1;  // outer: product of all dims but the last two
};

Permutation read_permutation(const Operation& op) {
  const rt_tensor_desc &x = op.input(0), &y = op.output(0);
  const int64_t packed = op.integer(RT_ATTR_PERMUTATION);
  Permutation p;
  uint32_t seen = 0;
  for (int32_t i = 0; i < x.rank; ++i) {
    const auto from = static_cast<int32_t>(packed >> (4 * i) & 15);
    if (from >= x.rank || (seen >> from & 1) || y.rank != x.rank || y.dims[i] != x.dims[from]) {
      op.fail(format("permutation %lx does not turn ", static_cast<unsigned long>(packed)) +
              rt::sdk::to_string(x) + " into " + rt::sdk::to_string(y));
    }
    seen |= 1u << from;
    int64_t stride = 1;
    for (int32_t j = from + 1; j < x.rank; ++j) stride *= x.dims[j];
    p.count *= y.dims[i];
    if (y.dims[i] == 1) continue;
    const auto last = static_cast<size_t>(p.rank - 1);
    if (p.rank > 0 && p.stride[last] == stride * y.dims[i]) {
      p.dims[last] *= y.dims[i], p.stride[last] = stride;
    } else {
      p.dims[static_cast<size_t>(p.rank)] = y.dims[i];
      p.stride[static_cast<size_t>(p.rank++)] = stride;
    }
  }
  while (p.rank < 2) {  // missing dimensions are added in front, so that there are at least two
    for (auto i = static_cast<size_t>(p.rank); i > 0; --i) {
      p.dims[i] = p.dims[i - 1], p.stride[i] = p.stride[i - 1];
    }
    p.dims[0] = 1, p.stride[0] = 0;
    if (p.rank++ == 0) p.stride[0] = 1;
  }
  for (int32_t i = 0; i + 2 < p.rank; ++i) p.outer *= p.dims[static_cast<size_t>(i)];
  return p;
}

// The offset in the input at which outer block `index` begins.
int64_t source_offset(const Permutation& p, int64_t index) {
  int64_t offset = 0;
  for (int32_t i = p.rank - 3; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    offset += index % p.dims[at] * p.stride[at];
    index /= p.dims[at];
  }
  return offset;
}

// Transposes rows begin..end, counted over the outer dimensions and the last but one, in tiles that
// fit the cache.
template <typename T>
void transpose_rows(const Permutation& p, const T* x, T* y, int64_t begin, int64_t end) {
  constexpr int64_t kTile = 16;
  const auto last = static_cast<size_t>(p.rank - 1);
  const int64_t rows = p.dims[last - 1], columns = p.dims[last];
  const int64_t row_step = p.stride[last - 1], column_step = p.stride[last];
  for (int64_t row = begin; row < end;) {
    const int64_t block = row / rows, first = row % rows;
    const int64_t length = std::min({kTile, rows - first, end - row});
    const T* from = x + source_offset(p, block) + first * row_step;
    T* to = y + row * columns;
    for (int64_t c = 0; c < columns; c += kTile) {
      const int64_t stop = std::min(columns, c + kTile);
      for (int64_t r = 0; r < length; ++r) {
        for (int64_t i = c; i < stop; ++i) {
          to[r * columns + i] = from[r * row_step + i * column_step];
        }
      }
    }
    row += length;
  }
}

template <typename T>
std::unique_ptr<Plan> make_transpose_of(const NativeContext& context, const Permutation& p) {
  return make_plan(context, "native:transpose",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     if (p.count == 0) return;
                     const auto last = static_cast<size_t>(p.rank - 1);
                     parallel_parts(threads, p.outer * p.dims[last - 1],
                                    kElementGrain / p.dims[last] + 1, 16,
                                    [&](int, int64_t b, int64_t e) {
                                      transpose_rows(p, input<T>(l, 0), output<T>(l, 0), b, e);
                                    });
                   });
}

std::unique_ptr<Plan> make_transpose(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_dtype(op, op.output(0), op.input(0).dtype, "output");
  const Permutation p = read_permutation(op);
  switch (dtype_bytes(op.input(0).dtype)) {
    case 8:
      return make_transpose_of<uint64_t>(context, p);
    case 4:
      return make_transpose_of<uint32_t>(context, p);
    case 2:
      return make_transpose_of<uint16_t>(context, p);
    default:
      return make_transpose_of<uint8_t>(context, p);
  }
}

// --- concat, slice, pad: runs of bytes are copied ---

// A tensor seen as [outer][length][inner]: `length` indices along the axis, of `inner` bytes each.
struct Runs {
  int64_t outer = 1, inner = 1, length = 0;  // inner: bytes of one index of the axis
};

Runs runs_of(const Operation& op, const rt_tensor_desc& tensor, int64_t axis) {
  if (axis < 0 || axis >= tensor.rank) {
    op.fail(format("axis %ld of ", static_cast<long>(axis)) + rt::sdk::to_string(tensor));
  }
  Runs r;
  for (int64_t i = 0; i < axis; ++i) r.outer *= tensor.dims[i];
  for (int64_t i = axis + 1; i < tensor.rank; ++i) r.inner *= tensor.dims[i];
  r.inner *= static_cast<int64_t>(dtype_bytes(tensor.dtype));
  r.length = tensor.dims[axis];
  return r;
}

void expect_like(const Operation& op, const rt_tensor_desc& a, const rt_tensor_desc& b,
                 int64_t axis) {
  bool fits = a.rank == b.rank && a.dtype == b.dtype;
  for (int32_t i = 0; fits && i < a.rank; ++i) fits = i == axis || a.dims[i] == b.dims[i];
  if (!fits) {
    op.fail(rt::sdk::to_string(a) + " and " + rt::sdk::to_string(b) +
            format(" may differ in axis %ld only", static_cast<long>(axis)));
  }
}

// Copies `bytes` from each of `rows` rows of `from` to the same row of `to`. Rows begin from_row
// and to_row bytes apart.
void copy_runs(int threads, const char* from, int64_t from_row, char* to, int64_t to_row,
               int64_t rows, int64_t bytes) {
  if (bytes == 0) return;
  parallel_for(threads, rows, (1 << 16) / bytes + 1, [&](int64_t b, int64_t e) {
    for (int64_t r = b; r < e; ++r) {
      std::memcpy(to + r * to_row, from + r * from_row, static_cast<size_t>(bytes));
    }
  });
}

std::unique_ptr<Plan> make_concat(const NativeContext& context, const Operation& op) {
  if (op.input_count() == 0) op.fail("needs at least one input");
  expect_counts(op, op.input_count(), 1);
  const int64_t axis = op.integer(RT_ATTR_AXIS);
  const Runs y = runs_of(op, op.output(0), axis);
  std::vector<int64_t> lengths;
  int64_t total = 0;
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    expect_like(op, op.input(i), op.output(0), axis);
    lengths.push_back(op.input(i).dims[axis]);
    total += lengths.back();
  }
  if (total != y.length) {
    op.fail(format("inputs have %ld along the axis, the output %ld", static_cast<long>(total),
                   static_cast<long>(y.length)));
  }
  return make_plan(context, "native:concat",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     int64_t at = 0;
                     for (uint32_t i = 0; i < lengths.size(); ++i) {
                       const int64_t bytes = lengths[i] * y.inner;
                       copy_runs(threads, input<char>(l, i), bytes,
                                 output<char>(l, 0) + at * y.inner, y.length * y.inner, y.outer,
                                 bytes);
                       at += lengths[i];
                     }
                   });
}

// The position along the axis at which the shorter tensor begins in the longer one.
int64_t read_start(const Operation& op, const Runs& part, const Runs& whole) {
  const int64_t start = op.integer(RT_ATTR_START, 0);
  if (start < 0 || start + part.length > whole.length) {
    op.fail(format("start %ld and length %ld do not fit into %ld", static_cast<long>(start),
                   static_cast<long>(part.length), static_cast<long>(whole.length)));
  }
  return start;
}

std::unique_ptr<Plan> make_slice(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  const int64_t axis = op.integer(RT_ATTR_AXIS);
  expect_like(op, op.input(0), op.output(0), axis);
  const Runs x = runs_of(op, op.input(0), axis), y = runs_of(op, op.output(0), axis);
  const int64_t start = read_start(op, y, x);
  return make_plan(context, "native:slice",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     copy_runs(threads, input<char>(l, 0) + start * x.inner, x.length * x.inner,
                               output<char>(l, 0), y.length * y.inner, y.outer, y.length * y.inner);
                   });
}

std::unique_ptr<Plan> make_pad(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  const int64_t axis = op.integer(RT_ATTR_AXIS);
  expect_like(op, op.input(0), op.output(0), axis);
  const Runs x = runs_of(op, op.input(0), axis), y = runs_of(op, op.output(0), axis);
  const int64_t start = read_start(op, x, y);
  return make_plan(
      context, "native:pad",
      [=, threads = context.engine.threads(),
       &kernel = context.engine.kernels()](const rt_launch& l) {
        const int64_t row = y.length * y.inner, before = start * y.inner, body = x.length * x.inner;
        parallel_for(threads, y.outer, (1 << 16) / (row + 1) + 1, [&](int64_t b, int64_t e) {
          for (int64_t r = b; r < e; ++r) {
            char* to = output<char>(l, 0) + r * row;
            std::memset(to, 0, static_cast<size_t>(before));
            std::memcpy(to + before, input<char>(l, 0) + r * body, static_cast<size_t>(body));
            std::memset(to + before + body, 0, static_cast<size_t>(row - before - body));
          }
        });
      });
}

// --- cast ---

template <typename From, typename To>
std::unique_ptr<Plan> make_cast_of(const NativeContext& context, int64_t count) {
  return make_plan(context, "native:cast",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     const From* x = input<From>(l, 0);
                     To* y = output<To>(l, 0);
                     parallel_parts(threads, count, kElementGrain, 64,
                                    [&](int, int64_t b, int64_t e) {
                                      for (int64_t i = b; i < e; ++i) y[i] = static_cast<To>(x[i]);
                                    });
                   });
}

template <typename From>
std::unique_ptr<Plan> make_cast_from(const NativeContext& context, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  switch (op.output(0).dtype) {
    case RT_FLOAT32:
      return make_cast_of<From, float>(context, count);
    case RT_INT32:
      return make_cast_of<From, int32_t>(context, count);
    case RT_INT64:
      return make_cast_of<From, int64_t>(context, count);
    default:
      return make_cast_of<From, uint8_t>(context, count);
  }
}

std::unique_ptr<Plan> make_cast(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_same_dims(op, op.input(0), op.output(0));
  switch (op.input(0).dtype) {
    case RT_FLOAT32:
      return make_cast_from<float>(context, op);
    case RT_INT32:
      return make_cast_from<int32_t>(context, op);
    case RT_INT64:
      return make_cast_from<int64_t>(context, op);
    default:
      return make_cast_from<uint8_t>(context, op);
  }
}

// --- dropout ---

std::unique_ptr<Plan> make_dropout(const NativeContext& context, const Operation& op) {
  expect_counts(op, 3, 1);
  expect_dtype(op, op.input(0), RT_FLOAT32, "x");
  expect_dtype(op, op.input(1), RT_INT64, "step");
  expect_dtype(op, op.input(2), RT_INT64, "base");
  expect_same_dims(op, op.input(0), op.output(0));
  if (op.input(0).rank < 1) op.fail("x needs a batch dimension");
  const double probability = op.number(RT_ATTR_PROBABILITY);
  if (!(probability >= 0.0 && probability < 1.0)) {
    op.fail(format("probability %g; expected 0 <= probability < 1", probability));
  }
  const auto seed = static_cast<uint64_t>(op.integer(RT_ATTR_SEED));
  const auto stream = static_cast<uint32_t>(op.integer(RT_ATTR_STREAM));
  const int64_t samples = op.input(0).dims[0];
  const int64_t elements = samples == 0 ? 0 : rt::sdk::element_count(op.input(0)) / samples;
  // A slice of a tensor that is split over ranks holds columns first_column to first_column +
  // columns of rows of `whole_columns`. Otherwise a whole sample is one row.
  const int64_t columns =
      op.integer(RT_ATTR_COLUMNS, 0) > 0 ? op.integer(RT_ATTR_COLUMNS) : elements;
  const int64_t whole_columns = op.integer(RT_ATTR_WHOLE_COLUMNS, columns);
  const int64_t first_column = op.integer(RT_ATTR_FIRST_COLUMN, 0);
  if (columns > 0 && elements % columns != 0) {
    op.fail(format("columns %ld do not divide the %ld elements of a sample",
                   static_cast<long>(columns), static_cast<long>(elements)));
  }
  constexpr int64_t kChunk = 4096;  // elements; a multiple of 4
  const int64_t chunks = (columns + kChunk - 1) / kChunk;
  const int64_t rows = columns == 0 ? 0 : elements / columns;  // rows of one sample
  auto plan = make_plan(
      context, "native:dropout",
      [=, threads = context.engine.threads(),
       &kernel = context.engine.kernels()](const rt_launch& l) {
        const auto step = static_cast<uint32_t>(*input<int64_t>(l, 1));
        const int64_t base = *input<int64_t>(l, 2);
        const int64_t grain = kElementGrain / 8 / (std::min(columns, kChunk) + 1) + 1;
        parallel_for(threads, samples * rows * chunks, grain, [&](int64_t b, int64_t e) {
          for (int64_t unit = b; unit < e; ++unit) {
            const int64_t n = unit / chunks / rows, row = unit / chunks % rows;
            const int64_t first = unit % chunks * kChunk;
            const kernels::DropoutKey key{static_cast<uint32_t>(seed),
                                          static_cast<uint32_t>(seed >> 32),
                                          static_cast<uint32_t>(base + n),
                                          step,
                                          stream,
                                          static_cast<float>(probability),
                                          static_cast<float>(1.0 / (1.0 - probability))};
            const int64_t at = n * elements + row * columns + first;
            kernel.dropout(key, row * whole_columns + first_column + first, input<float>(l, 0) + at,
                           output<float>(l, 0) + at, std::min(kChunk, columns - first));
          }
        });
      });
  plan->edit().in_place[0] = 0x1;
  return plan;
}

constexpr auto kCanonical = LayoutRule::kCanonical;
constexpr NativeKernel kKernels[] = {
    {RT_OP_EMBEDDING, kCanonical, make_embedding, NativeKernel::kBfloat16},
    {RT_OP_EMBEDDING_BACKWARD, kCanonical, make_embedding_backward},
    {RT_OP_TRANSPOSE, kCanonical, make_transpose, NativeKernel::kBfloat16},
    {RT_OP_CONCAT, kCanonical, make_concat, NativeKernel::kBfloat16},
    {RT_OP_SLICE, kCanonical, make_slice, NativeKernel::kBfloat16},
    {RT_OP_PAD, kCanonical, make_pad, NativeKernel::kBfloat16},
    {RT_OP_CAST, kCanonical, make_cast},
    {RT_OP_DROPOUT, kCanonical, make_dropout},
};

}  // namespace

KernelTable data_kernels() { return {kKernels, std::size(kKernels)}; }

}  // namespace backends::cpu
