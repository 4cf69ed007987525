// Products of matrices. The right operand is first packed into panels of 16 columns, so that a work
// item reads it in order as vectors; it then computes a tile of ROWS x 16 results in registers.
#define ROWS 8
#define COLUMNS 16
// Sums are added up in blocks of this many products, which keeps rounding errors small.
#define BLOCK 256

typedef struct {
  long rows, columns, row_step, column_step, batch_step;
} Matrix;

// Work item (column, row, batch). Panel p has columns 16 p to 16 p + 15 of all rows, with zeros
// behind the last column.
kernel void pack(BUFFER(b), BUFFER(panels), Matrix m) {
  OPEN(const real, b); OPEN(real, panels);
  const long column = get_global_id(0), row = get_global_id(1), batch = get_global_id(2);
  const long count = (m.columns + COLUMNS - 1) / COLUMNS;
  if (column >= count * COLUMNS) return;
  const long at = batch * m.batch_step + row * m.row_step + column * m.column_step;
  const long panel = batch * count + column / COLUMNS;
  panels[(panel * m.rows + row) * COLUMNS + column % COLUMNS] = column < m.columns ? b[at] : 0;
}

typedef struct {
  long m, n, k;
  long a_row, a_column, a_batch;  // steps
  long panels_batch, c_row, c_batch;
} Product;

// Work item (panel, block of rows, batch).
kernel void product(BUFFER(a), BUFFER(panels), BUFFER(c), Product s) {
  OPEN(const real, a); OPEN(const real, panels); OPEN(real, c);
  const long first_column = get_global_id(0) * COLUMNS, first_row = get_global_id(1) * ROWS;
  if (first_column >= s.n || first_row >= s.m) return;
  a += get_global_id(2) * s.a_batch;
  c += get_global_id(2) * s.c_batch + first_column;
  panels += get_global_id(2) * s.panels_batch + first_column * s.k;
  long at[ROWS];
  real16 sums[ROWS];
  for (int r = 0; r < ROWS; ++r) {
    at[r] = min(first_row + r, s.m - 1) * s.a_row;
    sums[r] = 0;
  }
  for (long begin = 0; begin < s.k; begin += BLOCK) {
    real16 part[ROWS];
    for (int r = 0; r < ROWS; ++r) part[r] = 0;
    for (long k = begin; k < min(begin + BLOCK, s.k); ++k) {
      const real16 b = vload16(k, panels);
      for (int r = 0; r < ROWS; ++r) part[r] += a[at[r] + k * s.a_column] * b;
    }
    for (int r = 0; r < ROWS; ++r) sums[r] += part[r];
  }
  for (int r = 0; r < ROWS && first_row + r < s.m; ++r) {
    global real *row = c + (first_row + r) * s.c_row;
    real values[COLUMNS];
    vstore16(sums[r], 0, values);
    for (int j = 0; j < min((long)COLUMNS, s.n - first_column); ++j) row[j] = values[j];
  }
}
