// embedding and its gradient; transpose, concat, slice, pad, cast, copy, fill.
#include "backends/gpu/rows.h"

namespace backends::gpu {
namespace {

// ---- embedding

struct Table {
  int64_t count, rows, width;  // count: number of indices; rows, width: of the table
  int64_t first_row;           // first row of the tensor-parallel slice; -1: the table is whole
  // The row of `table` for an index; -1 if another tensor-parallel slice of the table has it.
  GPU_DEVICE int64_t row_of(int32_t index) const {
    if (first_row < 0) return index;
    const int64_t row = index - first_row;
    return row >= 0 && row < rows ? row : -1;
  }
};

Table table_of(const Operation& op, const rt_tensor_desc& table) {
  return {rt::sdk::element_count(op.input(0)), table.dims[0], table.dims[1],
          op.integer(RT_ATTR_FIRST_ROW, -1)};
}

template <typename T>
struct Embedding {
  const int32_t* indices;
  const T* table;
  T* y;
  Table s;
  GPU_DEVICE void operator()(int64_t i) const {
    const int64_t row = s.row_of(indices[i / s.width]);
    y[i] = row < 0 ? static_cast<T>(0) : table[row * s.width + i % s.width];
  }
};

// Is `mine` true in any thread of the block? Returns the answer in every thread and is a barrier
// like __syncthreads. HIP-CPU cannot tell, so it always returns true.
GPU_DEVICE bool block_any(bool mine) {
#if defined(__HIP_CPU_RT__)
  static_cast<void>(mine);
  __syncthreads();
  return true;
#else
  return __syncthreads_or(mine ? 1 : 0) != 0;
#endif
}

// A block of threads computes one row of the table: it goes through all indices and adds up its
// rows of dy in their order.
template <typename T>
struct EmbeddingBackward {
  using C = Compute<T>;
  static constexpr int kEach = 4;  // columns that a thread sums at a time
  const int32_t* indices;
  const T* dy;
  T* dtable;
  Table s;
  GPU_DEVICE void operator()(int64_t row, C*) const {
    __shared__ int32_t mine[kBlock];
    const int t = static_cast<int>(threadIdx.x);
    for (int64_t column0 = 0; column0 < s.width; column0 += kEach * kBlock) {
      C sums[kEach] = {};
      for (int64_t i0 = 0; i0 < s.count; i0 += kBlock) {
        mine[t] = i0 + t < s.count && s.row_of(indices[i0 + t]) == row ? 1 : 0;
        if (!block_any(mine[t] != 0)) continue;  // nearly always in a large table
        for (int k = 0; k < kBlock; ++k) {
          if (mine[k] == 0) continue;
          for (int e = 0; e < kEach; ++e) {
            const int64_t column = column0 + t + e * kBlock;
            if (column < s.width) sums[e] += static_cast<C>(dy[(i0 + k) * s.width + column]);
          }
        }
        __syncthreads();
      }
      for (int e = 0; e < kEach; ++e) {
        const int64_t column = column0 + t + e * kBlock;
        if (column < s.width) dtable[row * s.width + column] = static_cast<T>(sums[e]);
      }
    }
  }
};

Kernel make_embedding(const Properties&, const Operation& op) {
  const Table s = table_of(op, op.input(1));
  return for_floating(op.input(1).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_each(l, s.count * s.width,
               Embedding<T>{l.input<int32_t>(0), l.input<T>(1), l.output<T>(0), s}, "embedding");
    };
    return kernel;
  });
}

Kernel make_embedding_backward(const Properties&, const Operation& op) {
  const Table s = table_of(op, op.output(0));
  return for_floating(op.input(1).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_rows<Compute<T>>(
          l, s.rows, EmbeddingBackward<T>{l.input<int32_t>(0), l.input<T>(1), l.output<T>(0), s},
          "embedding_backward");
    };
    return kernel;
  });
}

// ---- elements of any type, moved as bytes

// Calls body.operator()<unsigned integer with the size of `dtype`>().
template <typename Body>
Kernel for_bytes(rt_dtype dtype, Body&& body) {
  switch (rt::sdk::dtype_bytes(dtype)) {
    case 1:
      return body.template operator()<uint8_t>();
    case 2:
      return body.template operator()<uint16_t>();
    case 4:
      return body.template operator()<uint32_t>();
    default:
      return body.template operator()<uint64_t>();
  }
}

template <typename Word>
struct Transpose {
  const Word* x;
  Word* y;
  int32_t rank;
  int64_t dims[RT_MAX_RANK], strides[RT_MAX_RANK];  // dims of y and the strides of x for them, last
                                                    // dimension first
  GPU_DEVICE void operator()(int64_t i) const {
    int64_t rest = i, from = 0;
    for (int32_t d = 0; d < rank; ++d) {
      const int64_t next = rest / dims[d];
      from += (rest - next * dims[d]) * strides[d];
      rest = next;
    }
    y[i] = x[from];
  }
};

Kernel make_transpose(const Properties&, const Operation& op) {
  const rt_tensor_desc &x = op.input(0), &y = op.output(0);
  const int64_t permutation = op.integer(RT_ATTR_PERMUTATION), count = rt::sdk::element_count(x);
  int64_t strides[RT_MAX_RANK], stride = 1;
  for (int32_t d = x.rank - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= x.dims[d];
  }
  return for_bytes(x.dtype, [&]<typename Word>() {
    Transpose<Word> transpose{};
    transpose.rank = x.rank;
    for (int32_t d = 0; d < x.rank; ++d) {
      const int32_t axis = x.rank - 1 - d;
      transpose.dims[d] = y.dims[axis];
      transpose.strides[d] = strides[permutation >> 4 * axis & 15];
    }
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      Transpose<Word> bound = transpose;
      bound.x = l.input<Word>(0);
      bound.y = l.output<Word>(0);
      for_each(l, count, bound, "transpose");
    };
    return kernel;
  });
}

// Along one axis a tensor is [before, run], where run is the size along the axis times everything
// after it. In each run, the elements of the shorter tensor begin `shift` elements after the start
// of the longer tensor's run.
template <typename Word>
struct Slice {  // reads from the longer tensor
  const Word* x;
  Word* y;
  int64_t long_run, short_run, shift;
  GPU_DEVICE void operator()(int64_t i) const {
    y[i] = x[i / short_run * long_run + shift + i % short_run];
  }
};
template <typename Word>
struct Place {  // writes to the longer tensor
  const Word* x;
  Word* y;
  int64_t long_run, short_run, shift;
  GPU_DEVICE void operator()(int64_t i) const {
    y[i / short_run * long_run + shift + i % short_run] = x[i];
  }
};

int64_t run_of(const rt_tensor_desc& t, int64_t axis) {
  int64_t run = 1;
  for (int64_t d = axis; d < t.rank; ++d) run *= t.dims[d];
  return run;
}
// The number of elements in one step along the axis.
int64_t step_of(const rt_tensor_desc& t, int64_t axis) { return run_of(t, axis + 1); }

Kernel make_concat(const Properties&, const Operation& op) {
  const int64_t axis = op.integer(RT_ATTR_AXIS), long_run = run_of(op.output(0), axis);
  struct Piece {
    int64_t count, run, shift;
  };
  std::array<Piece, RT_MAX_INPUTS> pieces{};
  const uint32_t number = op.own_input_count();
  int64_t shift = 0;
  for (uint32_t i = 0; i < number; ++i) {
    pieces[i] = {rt::sdk::element_count(op.input(i)), run_of(op.input(i), axis), shift};
    shift += pieces[i].run;
  }
  return for_bytes(op.output(0).dtype, [&]<typename Word>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for (uint32_t i = 0; i < number; ++i) {
        for_each(l, pieces[i].count,
                 Place<Word>{l.input<Word>(i), l.output<Word>(0), long_run, pieces[i].run,
                             pieces[i].shift},
                 "concat");
      }
    };
    return kernel;
  });
}

Kernel make_slice(const Properties&, const Operation& op) {
  const rt_tensor_desc &x = op.input(0), &y = op.output(0);
  const int64_t axis = op.integer(RT_ATTR_AXIS), start = op.integer(RT_ATTR_START, 0);
  const int64_t count = rt::sdk::element_count(y);
  return for_bytes(x.dtype, [&]<typename Word>() {
    Kernel kernel;
    kernel.run = [=, long_run = run_of(x, axis), short_run = run_of(y, axis),
                  shift = start * step_of(x, axis)](const Launch& l) {
      for_each(l, count,
               Slice<Word>{l.input<Word>(0), l.output<Word>(0), long_run, short_run, shift},
               "slice");
    };
    return kernel;
  });
}

void clear(const Launch& l, uint64_t bytes) {
  if (bytes > 0) check(GPU(MemsetAsync)(l.outputs[0], 0, bytes, l.stream), "fill with zeros");
}

Kernel make_pad(const Properties&, const Operation& op) {
  const rt_tensor_desc &x = op.input(0), &y = op.output(0);
  const int64_t axis = op.integer(RT_ATTR_AXIS), start = op.integer(RT_ATTR_START, 0);
  const int64_t count = rt::sdk::element_count(x);
  const uint64_t bytes =
      static_cast<uint64_t>(rt::sdk::element_count(y)) * rt::sdk::dtype_bytes(y.dtype);
  return for_bytes(x.dtype, [&]<typename Word>() {
    Kernel kernel;
    kernel.run = [=, long_run = run_of(y, axis), short_run = run_of(x, axis),
                  shift = start * step_of(x, axis)](const Launch& l) {
      clear(l, bytes);
      for_each(l, count,
               Place<Word>{l.input<Word>(0), l.output<Word>(0), long_run, short_run, shift}, "pad");
    };
    return kernel;
  });
}

Kernel make_copy(const Properties&, const Operation& op) {
  const uint64_t bytes = static_cast<uint64_t>(rt::sdk::element_count(op.input(0))) *
                         rt::sdk::dtype_bytes(op.input(0).dtype);
  Kernel kernel;
  kernel.run = [=](const Launch& l) {
    if (bytes == 0 || l.inputs[0] == l.outputs[0]) return;
    check(GPU(MemcpyAsync)(l.outputs[0], l.inputs[0], bytes, GPU(MemcpyDeviceToDevice), l.stream),
          "copy");
  };
  return kernel;
}

// ---- operations on numbers

// Calls body.operator()<T>() with the C++ type of `dtype`.
template <typename Body>
Kernel for_numeric(rt_dtype dtype, Body&& body) {
  switch (dtype) {
    case RT_FLOAT64:
      return body.template operator()<double>();
    case RT_FLOAT16:
      return body.template operator()<Float16>();
    case RT_BFLOAT16:
      return body.template operator()<BFloat16>();
    case RT_INT32:
      return body.template operator()<int32_t>();
    case RT_INT64:
      return body.template operator()<int64_t>();
    case RT_UINT8:
      return body.template operator()<uint8_t>();
    case RT_INT8:
      return body.template operator()<int8_t>();
    default:
      return body.template operator()<float>();
  }
}

template <typename From, typename To>
struct Cast {
  const From* x;
  To* y;
  GPU_DEVICE void operator()(int64_t i) const { y[i] = convert<To>(x[i]); }
};

Kernel make_cast(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  return for_numeric(op.input(0).dtype, [&]<typename From>() {
    return for_numeric(op.output(0).dtype, [&]<typename To>() {
      Kernel kernel;
      kernel.run = [=](const Launch& l) {
        for_each(l, count, Cast<From, To>{l.input<From>(0), l.output<To>(0)}, "cast");
      };
      return kernel;
    });
  });
}

template <typename T>
struct Fill {
  T* y;
  T value;
  GPU_DEVICE void operator()(int64_t i) const { y[i] = value; }
};

Kernel make_fill(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.output(0));
  const double value = op.number(RT_ATTR_VALUE, 0.0);
  return for_numeric(op.output(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_each(l, count, Fill<T>{l.output<T>(0), convert<T>(value)}, "fill");
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {
    {RT_OP_EMBEDDING, make_embedding}, {RT_OP_EMBEDDING_BACKWARD, make_embedding_backward},
    {RT_OP_TRANSPOSE, make_transpose}, {RT_OP_CONCAT, make_concat},
    {RT_OP_SLICE, make_slice},         {RT_OP_PAD, make_pad},
    {RT_OP_CAST, make_cast},           {RT_OP_COPY, make_copy},
    {RT_OP_FILL, make_fill},
};

}  // namespace

Family movement_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
