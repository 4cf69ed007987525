// embedding; transpose, concat, slice, pad, cast, copy, fill. embedding_backward is in
// embedding.cu.
#include "backends/gpu/divisor.h"
#include "backends/gpu/embedding.h"
#include "backends/gpu/vector_kernel.h"
#include "backends/gpu/work.h"

namespace backends::gpu {
namespace {

// ---- elements of any type, moved as words

// The largest size of a word, at most 16 bytes, that divides all lengths of a tensor whose elements
// have `element` bytes. Lengths are in elements.
uint64_t word_bytes(uint64_t element, std::initializer_list<int64_t> lengths) {
  uint64_t word = 16;
  for (const int64_t length : lengths) {
    while (word > element && static_cast<uint64_t>(length) * element % word != 0) word /= 2;
  }
  return word;
}

// Calls body.operator()<Word>() with the type of words of `bytes` bytes.
template <typename Body>
Kernel for_words(uint64_t bytes, Body&& body) {
  switch (bytes) {
    case 1:
      return body.template operator()<uint8_t>();
    case 2:
      return body.template operator()<uint16_t>();
    case 4:
      return body.template operator()<uint32_t>();
    case 8:
      return body.template operator()<uint64_t>();
    default:
      return body.template operator()<Pack<uint32_t, 4>>();
  }
}

// The base of functions that move one word at a time.
template <typename Word>
struct Moves : WholeVectors {
  static constexpr int kAhead = 4;
  template <int N>
  using Loaded = Word;
};

// Queues a function that moves `count` words.
template <typename F>
void move_words(const Launch& l, int64_t count, F f, const char* name) {
  for_vectors<1>(l, count, true, f, name);
}

template <typename Word>
struct Embedding : Moves<Word> {
  const int32_t* indices;
  const Word* table;
  Word* y;
  Table s;
  Divisor width;  // of a row, in words
  Embedding(const Launch& l, const Table& shape, int64_t words)
      : indices(l.input<int32_t>(0)),
        table(l.input<Word>(1)),
        y(l.output<Word>(0)),
        s(shape),
        width(words) {}
  template <int>
  GPU_DEVICE void load(int64_t i, Word& loaded) const {
    const int64_t number = width.quotient(i), row = s.row_of(indices[number]);
    loaded = row < 0 ? Word{} : table[row * width.value() + i - number * width.value()];
  }
  template <int>
  GPU_DEVICE void store(int64_t i, const Word& loaded, NoState) const {
    y[i] = loaded;
  }
};

Kernel make_embedding(const Properties&, const Operation& op) {
  const Table s = table_of(op, op.input(1));
  const uint64_t element = rt::sdk::dtype_bytes(op.input(1).dtype);
  const uint64_t word = word_bytes(element, {s.width});
  const int64_t words = s.width * static_cast<int64_t>(element) / static_cast<int64_t>(word);
  return for_words(word, [&]<typename Word>() {
    Kernel kernel;
    kernel.work = work_unless_empty(op, s.count * s.width);
    kernel.run = [=](const Launch& l) {
      move_words(l, s.count * words, Embedding<Word>(l, s, words), "embedding");
    };
    return kernel;
  });
}

template <typename Word>
struct Transpose : Moves<Word> {
  const Word* x;
  Word* y;
  int32_t rank;
  Divisor dims[RT_MAX_RANK];     // of y, the last dimension first
  int64_t strides[RT_MAX_RANK];  // of x for them
  template <int>
  GPU_DEVICE void load(int64_t i, Word& loaded) const {
    int64_t rest = i, from = 0;
    GPU_UNROLL
    for (int32_t d = 0; d < RT_MAX_RANK; ++d) {
      if (d >= rank) continue;
      const int64_t next = dims[d].quotient(rest);
      from += (rest - next * dims[d].value()) * strides[d];
      rest = next;
    }
    loaded = x[from];
  }
  template <int>
  GPU_DEVICE void store(int64_t i, const Word& loaded, NoState) const {
    y[i] = loaded;
  }
};

// The dims of y and the strides of x for them in elements, the last dimension first. Neighbouring
// dimensions that stay neighbours are merged.
struct Permuted {
  int32_t rank = 0;
  int64_t dims[RT_MAX_RANK], strides[RT_MAX_RANK];
};
Permuted permuted_of(const Operation& op) {
  const rt_tensor_desc &x = op.input(0), &y = op.output(0);
  const int64_t permutation = op.integer(RT_ATTR_PERMUTATION);
  int64_t strides[RT_MAX_RANK], stride = 1;
  for (int32_t d = x.rank - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= x.dims[d];
  }
  Permuted p;
  for (int32_t axis = x.rank - 1; axis >= 0; --axis) {
    const int64_t dim = y.dims[axis], step = strides[permutation >> 4 * axis & 15];
    if (dim == 1) continue;
    if (p.rank > 0 && step == p.strides[p.rank - 1] * p.dims[p.rank - 1]) {
      p.dims[p.rank - 1] *= dim;
    } else {
      p.dims[p.rank] = dim;
      p.strides[p.rank++] = step;
    }
  }
  return p;
}

Kernel make_transpose(const Properties&, const Operation& op) {
  Permuted p = permuted_of(op);
  const uint64_t element = rt::sdk::dtype_bytes(op.input(0).dtype);
  const bool runs = p.rank > 0 && p.strides[0] == 1;  // the last dimension stays the last
  const uint64_t word = runs ? word_bytes(element, {p.dims[0]}) : element;
  const auto each = static_cast<int64_t>(word / element);  // elements of a word
  if (runs) p.dims[0] /= each;
  for (int32_t d = 1; d < p.rank; ++d) p.strides[d] /= each;  // all are multiples of dims[0]
  const int64_t count = rt::sdk::element_count(op.input(0)) / each;
  return for_words(word, [&]<typename Word>() {
    Transpose<Word> transpose{};
    transpose.rank = p.rank;
    for (int32_t d = 0; d < p.rank; ++d) {
      transpose.dims[d] = Divisor(p.dims[d]);
      transpose.strides[d] = p.strides[d];
    }
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      Transpose<Word> bound = transpose;
      bound.x = l.input<Word>(0);
      bound.y = l.output<Word>(0);
      move_words(l, count, bound, "transpose");
    };
    return kernel;
  });
}

// Along one axis a tensor is [before, run], where run is the size along the axis times everything
// after it. In each run, the elements of the shorter tensor begin `shift` elements after the start
// of the longer tensor's run.
struct Runs {
  int64_t long_run, short_run, shift;

  uint64_t word(uint64_t element) const {
    return word_bytes(element, {long_run, short_run, shift});
  }
  // The same in words of `each` elements.
  Runs in_words(int64_t each) const { return {long_run / each, short_run / each, shift / each}; }
};

template <typename Word>
struct Slice : Moves<Word> {  // reads from the longer tensor
  const Word* x;
  Word* y;
  Divisor short_run;
  int64_t long_run, shift;
  Slice(const void* from, void* to, const Runs& r)
      : x(static_cast<const Word*>(from)),
        y(static_cast<Word*>(to)),
        short_run(r.short_run),
        long_run(r.long_run),
        shift(r.shift) {}
  GPU_DEVICE int64_t place(int64_t i) const {
    const int64_t run = short_run.quotient(i);
    return run * long_run + shift + i - run * short_run.value();
  }
  template <int>
  GPU_DEVICE void load(int64_t i, Word& loaded) const {
    loaded = x[place(i)];
  }
  template <int>
  GPU_DEVICE void store(int64_t i, const Word& loaded, NoState) const {
    y[i] = loaded;
  }
};
template <typename Word>
struct Place : Slice<Word> {  // writes to the longer tensor
  using Slice<Word>::Slice;
  template <int>
  GPU_DEVICE void load(int64_t i, Word& loaded) const {
    loaded = this->x[i];
  }
  template <int>
  GPU_DEVICE void store(int64_t i, const Word& loaded, NoState) const {
    this->y[this->place(i)] = loaded;
  }
};
template <typename Word>
struct Pad : Moves<Word> {  // writes all of the longer tensor
  const Word* x;
  Word* y;
  Divisor long_run;
  int64_t short_run, shift;
  Pad(const Launch& l, const Runs& r)
      : x(l.input<Word>(0)),
        y(l.output<Word>(0)),
        long_run(r.long_run),
        short_run(r.short_run),
        shift(r.shift) {}
  template <int>
  GPU_DEVICE void load(int64_t i, Word& loaded) const {
    const int64_t run = long_run.quotient(i), in = i - run * long_run.value() - shift;
    loaded = in >= 0 && in < short_run ? x[run * short_run + in] : Word{};
  }
  template <int>
  GPU_DEVICE void store(int64_t i, const Word& loaded, NoState) const {
    y[i] = loaded;
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
  const int64_t axis = op.integer(RT_ATTR_AXIS);
  struct Piece {
    int64_t count;
    Runs runs;
  };
  std::array<Piece, RT_MAX_INPUTS> pieces{};
  const uint32_t number = op.own_input_count();
  const uint64_t element = rt::sdk::dtype_bytes(op.output(0).dtype);
  uint64_t word = 16;
  int64_t shift = 0;
  for (uint32_t i = 0; i < number; ++i) {
    const int64_t run = run_of(op.input(i), axis);
    pieces[i] = {rt::sdk::element_count(op.input(i)), {run_of(op.output(0), axis), run, shift}};
    word = std::min(word, pieces[i].runs.word(element));
    shift += run;
  }
  const auto each = static_cast<int64_t>(word / element);
  Kernel moves;
  for (uint32_t i = 0; i < number; ++i) {
    moves.work.push_back({"concat", 2 * bytes_of(op.input(i))});
    pieces[i] = {pieces[i].count / each, pieces[i].runs.in_words(each)};
  }
  return for_words(word, [&]<typename Word>() {
    Kernel kernel = moves;
    kernel.run = [=](const Launch& l) {
      for (uint32_t i = 0; i < number; ++i) {
        move_words(l, pieces[i].count, Place<Word>(l.inputs[i], l.outputs[0], pieces[i].runs),
                   "concat");
      }
    };
    return kernel;
  });
}

Kernel make_slice(const Properties&, const Operation& op) {
  const rt_tensor_desc &x = op.input(0), &y = op.output(0);
  const int64_t axis = op.integer(RT_ATTR_AXIS), start = op.integer(RT_ATTR_START, 0);
  const Runs runs{run_of(x, axis), run_of(y, axis), start * step_of(x, axis)};
  const uint64_t element = rt::sdk::dtype_bytes(x.dtype), word = runs.word(element);
  const auto each = static_cast<int64_t>(word / element);
  const int64_t count = rt::sdk::element_count(y) / each;
  Kernel kernel = for_words(word, [&]<typename Word>() {
    Kernel slice;
    slice.run = [=, r = runs.in_words(each)](const Launch& l) {
      move_words(l, count, Slice<Word>(l.inputs[0], l.outputs[0], r), "slice");
    };
    return slice;
  });
  kernel.work = {{"slice", 2 * bytes_of(y)}};
  return kernel;
}

Kernel make_pad(const Properties&, const Operation& op) {
  const rt_tensor_desc &x = op.input(0), &y = op.output(0);
  const int64_t axis = op.integer(RT_ATTR_AXIS), start = op.integer(RT_ATTR_START, 0);
  const Runs runs{run_of(y, axis), run_of(x, axis), start * step_of(x, axis)};
  const uint64_t element = rt::sdk::dtype_bytes(x.dtype), word = runs.word(element);
  const auto each = static_cast<int64_t>(word / element);
  const int64_t count = rt::sdk::element_count(y) / each;
  return for_words(word, [&]<typename Word>() {
    Kernel kernel;
    kernel.run = [=, r = runs.in_words(each)](const Launch& l) {
      move_words(l, count, Pad<Word>(l, r), "pad");
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
struct Cast : Stateless {
  const From* x;
  To* y;
  explicit Cast(const Launch& l) : x(l.input<From>(0)), y(l.output<To>(0)) {}
  template <int N>
  using Loaded = Pack<From, N>;
  template <int N>
  GPU_DEVICE void load(int64_t i, Loaded<N>& loaded) const {
    loaded = gpu::load<N>(x + i);
  }
  template <int N>
  GPU_DEVICE void store(int64_t i, const Loaded<N>& loaded, NoState) const {
    Pack<To, N> result;
    GPU_UNROLL
    for (int k = 0; k < N; ++k) result.value[k] = convert<To>(loaded.value[k]);
    gpu::store<N>(y + i, result);
  }
};

// The types that mixed precision casts between; the other casts, from 8 to 8 types, are in no model
// and move one element at a time.
template <typename T>
inline constexpr bool kMixed = kSixteenBit<T> || std::is_same_v<T, float>;

Kernel make_cast(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.input(0));
  return for_numeric(op.input(0).dtype, [&]<typename From>() {
    return for_numeric(op.output(0).dtype, [&]<typename To>() {
      constexpr int N = kMixed<From> && kMixed<To> ? std::max(kVector<From>, kVector<To>) : 1;
      Kernel kernel;
      kernel.run = [=](const Launch& l) {
        for_vectors<N>(l, count, aligned({l.inputs[0], l.outputs[0]}), Cast<From, To>(l), "cast");
      };
      return kernel;
    });
  });
}

template <typename T>
struct Fill : Stateless {
  T* y;
  T value;
  Fill(T* to, T number) : y(to), value(number) {}
  template <int N>
  using Loaded = NoState;
  template <int N>
  GPU_DEVICE void load(int64_t, NoState&) const {}
  template <int N>
  GPU_DEVICE void store(int64_t i, NoState, NoState) const {
    Pack<T, N> all;
    GPU_UNROLL
    for (int k = 0; k < N; ++k) all.value[k] = value;
    gpu::store<N>(y + i, all);
  }
};

Kernel make_fill(const Properties&, const Operation& op) {
  const int64_t count = rt::sdk::element_count(op.output(0));
  const double value = op.number(RT_ATTR_VALUE, 0.0);
  return for_numeric(op.output(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Launch& l) {
      for_vectors<kVector<T>>(l, count, aligned({l.outputs[0]}),
                              Fill<T>(l.output<T>(0), convert<T>(value)), "fill");
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
