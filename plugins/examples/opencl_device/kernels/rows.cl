// Reductions, losses, and look-up in tables.

// Larger of two numbers; a NaN is larger than any number.
wide larger(wide a, wide b) { return a > b || a != a ? a : b; }

// Work item (result, slice): one slice of the `count` elements that a result comes from.
kernel void reduce_slices(BUFFER(x), BUFFER(sums), Walk kept, Walk reduced, long results,
                          long slices, long count, long is_max) {
  OPEN(const real, x); OPEN(wide, sums);
  const long result = get_global_id(0), slice = get_global_id(1);
  if (result >= results) return;
  const long first = offset_of(kept.rank, kept.dims, kept.strides[0], result);
  wide sum = is_max ? -INFINITY : 0;
  for (long i = count * slice / slices; i < count * (slice + 1) / slices; ++i) {
    const wide v = x[first + offset_of(reduced.rank, reduced.dims, reduced.strides[0], i)];
    sum = is_max ? larger(sum, v) : sum + v;
  }
  sums[slice * results + result] = sum;
}

kernel void reduce_sums(BUFFER(sums), BUFFER(y), long results, long slices, real divisor,
                        long is_max) {
  OPEN(const wide, sums); OPEN(real, y);
  const long result = get_global_id(0);
  if (result >= results) return;
  wide sum = is_max ? -INFINITY : 0;
  for (long slice = 0; slice < slices; ++slice) {
    const wide v = sums[slice * results + result];
    sum = is_max ? larger(sum, v) : sum + v;
  }
  y[result] = sum / divisor;
}

// The largest logit of a row, and the logarithm of the sum of exp(logit - largest).
typedef struct {
  real largest, log_sum;
} RowSum;

RowSum sum_row(global const real *row, long width) {
  RowSum result = {row[0], 0};
  for (long j = 1; j < width; ++j) result.largest = fmax(result.largest, row[j]);
  wide sum = 0;
  for (long j = 0; j < width; ++j) sum += exp(row[j] - result.largest);
  result.log_sum = log(sum);
  return result;
}

kernel void cross_entropy(BUFFER(logits), BUFFER(labels), BUFFER(weight), BUFFER(terms), long rows,
                          long width) {
  OPEN(const real, logits); OPEN(const int, labels); OPEN(const real, weight);
  OPEN(wide, terms);
  const long i = get_global_id(0);
  if (i >= rows) return;
  terms[i] = 0;
  if (weight[i] == 0) return;
  const RowSum row = sum_row(logits + i * width, width);
  terms[i] = (wide)weight[i] * (row.log_sum - (logits[i * width + labels[i]] - row.largest));
}

kernel void cross_entropy_backward(BUFFER(logits), BUFFER(labels), BUFFER(weight), BUFFER(dloss),
                                   BUFFER(dlogits), long rows, long width) {
  OPEN(const real, logits); OPEN(const int, labels); OPEN(const real, weight);
  OPEN(const real, dloss); OPEN(real, dlogits);
  const long i = get_global_id(0);
  if (i >= rows) return;
  const real factor = weight[i] * dloss[0];
  const RowSum row = sum_row(logits + i * width, width);
  for (long j = i * width; j < (i + 1) * width; ++j) {
    const real hot = j - i * width == labels[i] ? 1 : 0;
    const real v = exp(logits[j] - row.largest - row.log_sum) - hot;
    dlogits[j] = weight[i] == 0 ? 0 : factor * v;
  }
}

kernel void correct_count(BUFFER(logits), BUFFER(labels), BUFFER(weight), BUFFER(terms), long rows,
                          long width) {
  OPEN(const real, logits); OPEN(const int, labels); OPEN(const real, weight);
  OPEN(wide, terms);
  const long i = get_global_id(0);
  if (i >= rows) return;
  long best = 0;
  for (long j = 1; j < width; ++j) {
    const real v = logits[i * width + j], most = logits[i * width + best];
    if (most == most && (v > most || v != v)) best = j;
  }
  terms[i] = weight[i] > 0 && best == labels[i] ? 1 : 0;
}

kernel void embedding(BUFFER(indices), BUFFER(table), BUFFER(y), long width, long count,
                      long rows, long first_row) {
  OPEN(const int, indices); OPEN(const real, table); OPEN(real, y);
  const long column = get_global_id(0), i = get_global_id(1);
  if (column >= width || i >= count) return;
  const long row = indices[i] - first_row;
  y[i * width + column] = row >= 0 && row < rows ? table[row * width + column] : 0;
}

// Sorts the positions of the indices by their row, stably: those of row r are in `order` from
// starts[r] to starts[r + 1] - 1. One work item, so that sums have a fixed order.
kernel void sort_indices(BUFFER(indices), BUFFER(starts), BUFFER(order), long count, long rows,
                         long first_row) {
  OPEN(const int, indices); OPEN(int, starts); OPEN(int, order);
  for (long row = 0; row <= rows; ++row) starts[row] = 0;
  for (long i = 0; i < count; ++i) {
    const long row = indices[i] - first_row;
    if (row >= 0 && row < rows) ++starts[row];
  }
  int end = 0;
  for (long row = 0; row <= rows; ++row) starts[row] = end += starts[row];
  for (long i = count - 1; i >= 0; --i) {
    const long row = indices[i] - first_row;
    if (row >= 0 && row < rows) order[--starts[row]] = i;
  }
}

kernel void embedding_backward(BUFFER(dy), BUFFER(starts), BUFFER(order), BUFFER(dtable),
                               long width, long rows) {
  OPEN(const real, dy); OPEN(const int, starts); OPEN(const int, order); OPEN(real, dtable);
  const long column = get_global_id(0), row = get_global_id(1);
  if (column >= width || row >= rows) return;
  wide sum = 0;
  for (int i = starts[row]; i < starts[row + 1]; ++i) sum += dy[order[i] * width + column];
  dtable[row * width + column] = sum;
}
