// Convolutions, as products with patches, and poolings.
typedef struct {
  int h, w, c, p, q;  // image and result
  int kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
  int n, group_channels;  // images; channels of the image in one group
} Geometry;

// Work item (tap of the window, row, group). Row (n, p, q) has the elements that one pixel of the
// result reads, in the order (kh, kw, channel), with zeros for padding. They are written as panels of
// `width` columns; with a panel of all columns that is a row-major matrix. Items behind the last tap
// write the zeros behind the last column.
kernel void gather_patches(BUFFER(x), BUFFER(patches), Geometry g, int width) {
  OPEN(const real, x); OPEN(real, patches);
  const int tap = get_global_id(0), row = get_global_id(1), group = get_global_id(2);
  const int columns = g.kernel_h * g.kernel_w * g.group_channels;
  const int panels = (columns + width - 1) / width, rows = g.n * g.p * g.q;
  if (row >= rows) return;
  const int h = row / g.q % g.p * g.stride_h - g.pad_top + tap / g.kernel_w * g.dilation_h;
  const int w = row % g.q * g.stride_w - g.pad_left + tap % g.kernel_w * g.dilation_w;
  const bool inside = h >= 0 && h < g.h && w >= 0 && w < g.w && tap < g.kernel_h * g.kernel_w;
  const long pixel = (row / (g.p * g.q) * g.h + h) * g.w + w;
  const int first = tap * g.group_channels, last = min(first + g.group_channels, panels * width);
  x += pixel * g.c + group * g.group_channels - first;
  patches += (long)group * panels * rows * width;
  int panel = first / width, at = first % width;
  for (int column = first; column < last; ++column) {
    patches[((long)panel * rows + row) * width + at] = inside ? x[column] : 0;
    if (++at == width) { ++panel; at = 0; }
  }
}

// The row p of the result whose window reads row h of the image as its row `tap`; -1 if there is
// none. The same for columns.
int reader(int h, int tap, int pad, int dilation, int stride, int size) {
  const int at = h + pad - tap * dilation;
  return at >= 0 && at % stride == 0 && at / stride < size ? at / stride : -1;
}

// Work item (channel, pixel of the image): adds up what its windows give back.
kernel void scatter_patches(BUFFER(patches), BUFFER(dx), Geometry g) {
  OPEN(const real, patches); OPEN(real, dx);
  const int channel = get_global_id(0), pixel = get_global_id(1);
  if (channel >= g.c || pixel >= g.n * g.h * g.w) return;
  const int n = pixel / (g.h * g.w), h = pixel / g.w % g.h, w = pixel % g.w;
  const int columns = g.kernel_h * g.kernel_w * g.group_channels;
  const long group = (long)(channel / g.group_channels) * g.n * g.p * g.q;
  real sum = 0;
  for (int kh = 0; kh < g.kernel_h; ++kh) {
    const int p = reader(h, kh, g.pad_top, g.dilation_h, g.stride_h, g.p);
    for (int kw = 0; p >= 0 && kw < g.kernel_w; ++kw) {
      const int q = reader(w, kw, g.pad_left, g.dilation_w, g.stride_w, g.q);
      const long row = group + (n * g.p + p) * g.q + q;
      const int tap = kh * g.kernel_w + kw;
      if (q >= 0) sum += patches[row * columns + tap * g.group_channels + channel % g.group_channels];
    }
  }
  dx[(long)pixel * g.c + channel] = sum;
}

// Work item (channel, pixel of the result). `winners` has the tap of the window that is its maximum.
kernel void max_pool2d(BUFFER(x), BUFFER(y), BUFFER(winners), Geometry g) {
  OPEN(const real, x); OPEN(real, y); OPEN(int, winners);
  const int channel = get_global_id(0), row = get_global_id(1);
  if (channel >= g.c || row >= g.n * g.p * g.q) return;
  const int n = row / (g.p * g.q), p = row / g.q % g.p, q = row % g.q;
  int winner = -1;
  real best = 0;
  for (int tap = 0; tap < g.kernel_h * g.kernel_w; ++tap) {
    const int h = p * g.stride_h - g.pad_top + tap / g.kernel_w;
    const int w = q * g.stride_w - g.pad_left + tap % g.kernel_w;
    if (h < 0 || h >= g.h || w < 0 || w >= g.w) continue;
    const real v = x[(long)((n * g.h + h) * g.w + w) * g.c + channel];
    if (winner >= 0 && !(v > best) && v == v) continue;
    winner = tap;
    best = v;
  }
  y[(long)row * g.c + channel] = best;
  winners[(long)row * g.c + channel] = winner;
}

// Work item (channel, pixel of the image).
kernel void max_pool2d_backward(BUFFER(dy), BUFFER(winners), BUFFER(dx), Geometry g) {
  OPEN(const real, dy); OPEN(const int, winners); OPEN(real, dx);
  const int channel = get_global_id(0), pixel = get_global_id(1);
  if (channel >= g.c || pixel >= g.n * g.h * g.w) return;
  const int n = pixel / (g.h * g.w), h = pixel / g.w % g.h, w = pixel % g.w;
  real sum = 0;
  for (int kh = 0; kh < g.kernel_h; ++kh) {
    const int p = reader(h, kh, g.pad_top, 1, g.stride_h, g.p);
    for (int kw = 0; p >= 0 && kw < g.kernel_w; ++kw) {
      const int q = reader(w, kw, g.pad_left, 1, g.stride_w, g.q);
      const long at = (long)((n * g.p + p) * g.q + q) * g.c + channel;
      if (q >= 0 && winners[at] == kh * g.kernel_w + kw) sum += dy[at];
    }
  }
  dx[(long)pixel * g.c + channel] = sum;
}

// What the sum of window (p, q) is divided by: all its taps, or those inside of the image.
real taps_of(const Geometry *g, int p, int q, int count_padding) {
  if (count_padding) return g->kernel_h * g->kernel_w;
  const int h = p * g->stride_h - g->pad_top, w = q * g->stride_w - g->pad_left;
  return (min(h + g->kernel_h, g->h) - max(h, 0)) * (min(w + g->kernel_w, g->w) - max(w, 0));
}

// Work item (channel, pixel of the result).
kernel void avg_pool2d(BUFFER(x), BUFFER(y), Geometry g, int count_padding) {
  OPEN(const real, x); OPEN(real, y);
  const int channel = get_global_id(0), row = get_global_id(1);
  if (channel >= g.c || row >= g.n * g.p * g.q) return;
  const int n = row / (g.p * g.q), p = row / g.q % g.p, q = row % g.q;
  const int top = p * g.stride_h - g.pad_top, left = q * g.stride_w - g.pad_left;
  real sum = 0;
  for (int h = max(top, 0); h < min(top + g.kernel_h, g.h); ++h) {
    for (int w = max(left, 0); w < min(left + g.kernel_w, g.w); ++w)
      sum += x[(long)((n * g.h + h) * g.w + w) * g.c + channel];
  }
  y[(long)row * g.c + channel] = sum / taps_of(&g, p, q, count_padding);
}

// Work item (channel, pixel of the image).
kernel void avg_pool2d_backward(BUFFER(dy), BUFFER(dx), Geometry g, int count_padding) {
  OPEN(const real, dy); OPEN(real, dx);
  const int channel = get_global_id(0), pixel = get_global_id(1);
  if (channel >= g.c || pixel >= g.n * g.h * g.w) return;
  const int n = pixel / (g.h * g.w), h = pixel / g.w % g.h, w = pixel % g.w;
  real sum = 0;
  for (int kh = 0; kh < g.kernel_h; ++kh) {
    const int p = reader(h, kh, g.pad_top, 1, g.stride_h, g.p);
    for (int kw = 0; p >= 0 && kw < g.kernel_w; ++kw) {
      const int q = reader(w, kw, g.pad_left, 1, g.stride_w, g.q);
      const long at = (long)((n * g.p + p) * g.q + q) * g.c + channel;
      if (q >= 0) sum += dy[at] / taps_of(&g, p, q, count_padding);
    }
  }
  dx[(long)pixel * g.c + channel] = sum;
}
