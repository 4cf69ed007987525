// embedding_backward: each row of the table is the sum of the rows of dy whose indices name it, in
// the order of the indices. It has two forms.
//
// Up to kListed indices, one kernel does it: a block computes a few rows of the table. It reads all
// indices, at most 2 KB, in one step, lists those that name one of its rows, and adds up the rows
// of dy that the list names.
//
// More indices are sorted by their rows first (row_sort.h): two launches for a table of up
// to 511 rows and four for up to 262,143; two more add up. The sort reads and writes 40 bytes for
// each index, and its counts, where lists read 4 bytes of each index for every 16 rows of the
// table: for 8,192 indices and 50,257 rows 1 MB instead of 103 MB. Where lists end, a row that all
// indices name is 64 loads of 8 rows one after the other, each of about 0.5 microseconds, which is
// as long as the six launches take.
//
// A row of the table may have any number of indices, also all. So the sorted list is cut into
// chunks of a fixed size: one kernel adds up the chunks of which all indices name the same row, and
// the last one adds, in the order of the indices, such sums and the rows of dy before and behind.
// The same indices always give the same bits.
#include "backends/gpu/embedding.h"
#include "backends/gpu/limits.h"
#include "backends/gpu/row_sort.h"
#include "backends/gpu/vectors.h"

namespace backends::gpu {
namespace {

constexpr int kSeen = 2;                 // indices that a thread looks at
constexpr int kListed = kBlock * kSeen;  // entries of a list, which is in shared memory
constexpr int kAhead = 8;                // rows that a thread loads before it adds the first
constexpr int64_t kMostRows = 16;        // of the table for a block

// The rows of the table from `first` on that a block computes.
struct Range {
  int64_t first, count;
};
GPU_DEVICE Range range_of(const Table& s, int64_t first, int64_t rows_of_block) {
  const int64_t rest = s.rows - first;
  return {first, rest < rows_of_block ? rest : rows_of_block};
}

// The part of a row that a group of threads adds up together: N neighbouring columns of each
// thread. A row has `of_row` strips, and the groups take one strip of one row after the other.
template <int N>
struct Strips {
  int64_t width, of_row;
  GPU_DEVICE explicit Strips(const Table& s)
      : width(s.width), of_row((s.width + kGroup * N - 1) / (kGroup * N)) {}
  // The first column of the calling thread; not smaller than `width` if the thread has none.
  GPU_DEVICE int64_t column(int64_t strip) const {
    return strip * kGroup * N + static_cast<int64_t>(threadIdx.x % kGroup) * N;
  }
};
// The number of the calling thread's group in its block.
GPU_DEVICE int64_t group_of_block() { return threadIdx.x / kGroup; }

// Lists the indices of the range in their order and returns their number.
GPU_DEVICE int list_matches(const int32_t* indices, const Table& s, const Range& range,
                            int* scratch, Named* list) {
  const int from = static_cast<int>(threadIdx.x) * kSeen;
  int64_t rows[kSeen];
  int mine = 0;
  for (int k = 0; k < kSeen; ++k) {
    rows[k] = from + k < s.count ? s.row_of(indices[from + k]) - range.first : -1;
    if (rows[k] >= range.count) rows[k] = -1;
    if (rows[k] >= 0) ++mine;
  }
  int total = 0;
  int at = sum_before(mine, scratch, total);
  for (int k = 0; k < kSeen; ++k) {
    if (rows[k] < 0) continue;
    list[at++] = {static_cast<uint32_t>(rows[k]), static_cast<uint32_t>(from + k)};
  }
  __syncthreads();
  return total;
}

// Adds up N columns, from `column` on, of the rows of dy that the list names for `row`.
template <typename T, int N>
GPU_DEVICE Pack<T, N> sum_of_listed(const T* dy, const Table& s, const Named* list, int listed,
                                    uint32_t row, int64_t column) {
  Compute<T> sums[N] = {};
  for (int k = 0; k < listed;) {
    Pack<T, N> loaded[kAhead] = {};
    bool valid[kAhead];
    GPU_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      while (k < listed && list[k].row != row) ++k;
      valid[a] = k < listed;
      if (valid[a]) loaded[a] = load<N>(dy + int64_t{list[k].number} * s.width + column);
      ++k;
    }
    GPU_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      GPU_UNROLL
      for (int n = 0; n < N && valid[a]; ++n)
        sums[n] += static_cast<Compute<T>>(loaded[a].value[n]);
    }
  }
  return narrow<T, N>(sums);
}

// The form for at most kListed indices.
template <typename T, int N>
GPU_KERNEL_OF(kBlock)
void sum_listed_kernel(const int32_t* indices, const T* dy, T* dtable, Table s,
                       int64_t rows_of_block) {
  __shared__ int scratch[kBlock];
  __shared__ Named list[kListed];
  const Strips<N> strips(s);
  for (int64_t first = blockIdx.x * rows_of_block; first < s.rows;
       first += gridDim.x * rows_of_block) {
    const Range range = range_of(s, first, rows_of_block);
    const int listed = list_matches(indices, s, range, scratch, list);
    for (int64_t task = group_of_block(); task < range.count * strips.of_row; task += kGroups) {
      const int64_t row = task / strips.of_row, column = strips.column(task - row * strips.of_row);
      if (column >= s.width) continue;
      store<N>(dtable + (first + row) * s.width + column,
               sum_of_listed<T, N>(dy, s, list, listed, static_cast<uint32_t>(row), column));
    }
    __syncthreads();  // the list of the next range uses the same memory
  }
}

// The chunks of the sorted list, of 2^bits indices each. Their size grows with the square root of
// the list, so that a row that all indices name has at most four times as many chunks as a chunk
// has indices.
struct Chunks {
  int bits;
  int64_t count;  // of the chunks that are full
  explicit Chunks(int64_t indices) : bits(5), count(0) {
    while ((int64_t{4} << (2 * bits)) < indices) ++bits;
    count = indices >> bits;
  }
};

// Adds to `sums` N columns of the rows `from` .. `to` - 1 of a matrix, or of those that these
// entries of `named`, if it is not null, have the numbers of. `matrix` begins at the first column.
template <int N, typename E, typename C>
GPU_DEVICE void add_rows(C (&sums)[N], const E* matrix, int64_t width, const Named* named,
                         int64_t from, int64_t to) {
  for (int64_t k = from; k < to; k += kAhead) {
    Pack<E, N> loaded[kAhead] = {};
    GPU_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      if (k + a >= to) continue;
      const int64_t row = named == nullptr ? k + a : int64_t{named[k + a].number};
      loaded[a] = load<N>(matrix + row * width);
    }
    GPU_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      GPU_UNROLL
      for (int n = 0; n < N && k + a < to; ++n) sums[n] += static_cast<C>(loaded[a].value[n]);
    }
  }
}

// partial[chunk] = sum of the rows of dy of the chunk's indices, if all of them name one row of the
// table. The partial sums of other chunks are not written.
template <typename T, int N>
GPU_KERNEL_OF(kBlock)
void sum_chunks_kernel(const Named* sorted, const T* dy, Compute<T>* partial, Table s,
                       Chunks chunks) {
  const Strips<N> strips(s);
  for (int64_t task = int64_t{blockIdx.x} * kGroups + group_of_block();
       task < chunks.count * strips.of_row; task += int64_t{gridDim.x} * kGroups) {
    const int64_t chunk = task / strips.of_row;
    const int64_t column = strips.column(task - chunk * strips.of_row);
    const int64_t from = chunk << chunks.bits, to = (chunk + 1) << chunks.bits;
    const uint32_t row = sorted[from].row;
    if (column >= s.width || row == no_row(s) || sorted[to - 1].row != row) continue;
    Pack<Compute<T>, N> sums = {};
    add_rows<N>(sums.value, dy + column, s.width, sorted, from, to);
    store<N>(partial + chunk * s.width + column, sums);
  }
}

// The place of the first of the sorted indices that names `row` or a later one.
GPU_DEVICE int64_t first_of_row(const Named* sorted, int64_t count, int64_t row) {
  int64_t before = 0, after = count;  // the answer is in before .. after
  while (before < after) {
    const int64_t middle = (before + after) / 2;
    if (int64_t{sorted[middle].row} < row) {
      before = middle + 1;
    } else {
      after = middle;
    }
  }
  return before;
}

// Adds up N columns, from `column` on, of the rows of dy of the sorted indices from .. to - 1,
// which are those of one row of the table.
template <typename T, int N>
GPU_DEVICE Pack<T, N> sum_of_sorted(const Named* sorted, const T* dy, const Compute<T>* partial,
                                    const Table& s, const Chunks& chunks, int64_t from, int64_t to,
                                    int64_t column) {
  Compute<T> sums[N] = {};
  const int64_t size = int64_t{1} << chunks.bits;
  const int64_t first = (from + size - 1) >> chunks.bits, last = to >> chunks.bits;  // full chunks
  if (first < last) {
    add_rows<N>(sums, dy + column, s.width, sorted, from, first * size);
    add_rows<N>(sums, partial + column, s.width, nullptr, first, last);
    from = last * size;
  }
  add_rows<N>(sums, dy + column, s.width, sorted, from, to);
  return narrow<T, N>(sums);
}

template <typename T, int N>
GPU_KERNEL_OF(kBlock)
void sum_rows_kernel(const Named* sorted, const T* dy, const Compute<T>* partial, T* dtable,
                     Table s, Chunks chunks, int64_t rows_of_block) {
  __shared__ int64_t begins[kMostRows + 1];
  const Strips<N> strips(s);
  for (int64_t first = blockIdx.x * rows_of_block; first < s.rows;
       first += gridDim.x * rows_of_block) {
    const Range range = range_of(s, first, rows_of_block);
    if (threadIdx.x <= range.count)
      begins[threadIdx.x] = first_of_row(sorted, s.count, first + threadIdx.x);
    __syncthreads();
    for (int64_t task = group_of_block(); task < range.count * strips.of_row; task += kGroups) {
      const int64_t row = task / strips.of_row, column = strips.column(task - row * strips.of_row);
      if (column >= s.width) continue;
      store<N>(dtable + (first + row) * s.width + column,
               sum_of_sorted<T, N>(sorted, dy, partial, s, chunks, begins[row], begins[row + 1],
                                   column));
    }
    __syncthreads();  // the rows of the next range use the same memory
  }
}

// How the kernels that add up are launched.
struct SumGrid {
  int64_t rows_of_block;
  uint32_t blocks;
  // Few rows for a block if the table is small, so that all multiprocessors have some.
  SumGrid(const Properties& properties, const Table& s)
      : rows_of_block(
            std::clamp<int64_t>(s.rows / (8 * int64_t{properties.multiprocessors}), 1, kMostRows)),
        blocks(static_cast<uint32_t>(std::min<int64_t>(divide_up(s.rows, rows_of_block), 65535))) {}
};

template <typename T, int N>
void queue_listed(const Launch& l, const Table& s, const SumGrid& grid) {
  GPU_LAUNCH((sum_listed_kernel<T, N>), dim3(grid.blocks), dim3(kBlock), l.stream,
             l.input<int32_t>(0), l.input<T>(1), l.output<T>(0), s, grid.rows_of_block);
  check_launch("embedding_backward");
}

// The workspace of the second form: both lists of the sort, its counts, and partial sums.
struct Workspace {
  uint64_t counts, partial, bytes;  // where the two begin
  Workspace(const SortGrid& sort, uint64_t partial_bytes)
      : counts(aligned(2 * aligned(sort.list_bytes()))),
        partial(counts + aligned(sort.count_bytes())),
        bytes(partial + partial_bytes) {}
  static uint64_t aligned(uint64_t size) {
    return (size + kAlignment - 1) / kAlignment * kAlignment;
  }
};

template <typename T, int N>
void queue_sorted(const Launch& l, const Table& s, const SumGrid& grid, const SortGrid& sort,
                  const Chunks& chunks, const Workspace& space) {
  char* const begin = static_cast<char*>(l.workspace);
  auto* const lists = reinterpret_cast<Named*>(begin);
  auto* const second = reinterpret_cast<Named*>(begin + Workspace::aligned(sort.list_bytes()));
  auto* const partial = reinterpret_cast<Compute<T>*>(begin + space.partial);
  const Named* const sorted =
      sort_by_row(l, s, sort, {lists, second}, reinterpret_cast<uint32_t*>(begin + space.counts));
  const int64_t strips = divide_up(s.width, kGroup * N);
  GPU_LAUNCH((sum_chunks_kernel<T, N>), dim3(grid_for(chunks.count * strips * kGroup)),
             dim3(kBlock), l.stream, sorted, l.input<T>(1), partial, s, chunks);
  check_launch("embedding_backward, chunks");
  GPU_LAUNCH((sum_rows_kernel<T, N>), dim3(grid.blocks), dim3(kBlock), l.stream, sorted,
             l.input<T>(1), partial, l.output<T>(0), s, chunks, grid.rows_of_block);
  check_launch("embedding_backward, rows");
}

template <typename T>
Kernel listed_kernel(const Operation& op, const Table& s, const SumGrid& grid) {
  Kernel kernel;
  kernel.work = work_unless_empty(op, s.rows * s.width);
  kernel.run = [s, grid](const Launch& l) {
    if (s.rows * s.width == 0) return;
    if (s.width % kVector<T> == 0) return queue_listed<T, kVector<T>>(l, s, grid);
    queue_listed<T, 1>(l, s, grid);
  };
  return kernel;
}

template <typename T>
Kernel sorted_kernel(const Operation& op, const Table& s, const SumGrid& grid) {
  const SortGrid sort(s);
  const Chunks chunks(s.count);
  const Workspace space(sort, static_cast<uint64_t>(chunks.count * s.width) * sizeof(Compute<T>));
  Kernel kernel;
  kernel.workspace_bytes = space.bytes;
  sort_work(kernel.work, sort);
  kernel.work.push_back({"sums of chunks", static_cast<double>(chunks.count) * 2 * sizeof(Named)});
  kernel.work.push_back({"sums of rows", static_cast<double>(sort.list_bytes()) +
                                             bytes_of(op.input(1)) + bytes_of(op.output(0))});
  kernel.run = [=](const Launch& l) {
    if (s.width % kVector<T> == 0) {
      return queue_sorted<T, kVector<T>>(l, s, grid, sort, chunks, space);
    }
    queue_sorted<T, 1>(l, s, grid, sort, chunks, space);
  };
  return kernel;
}

}  // namespace

Kernel make_embedding_backward(const Properties& properties, const Operation& op) {
  const Table s = table_of(op, op.output(0));
  expect_at_most(op, s.count, INT32_MAX, "indices");
  const SumGrid grid(properties, s);
  const bool listed = s.count <= kListed || s.rows * s.width == 0;
  return for_floating(op.input(1).dtype, [&]<typename T>() {
    return listed ? listed_kernel<T>(op, s, grid) : sorted_kernel<T>(op, s, grid);
  });
}

}  // namespace backends::gpu
