// Operations element by element, fill, copy and the optimizers. One work item an element.

// The distribution function of the normal distribution. It uses erfc, because 1 + erf has no digits
// left where it is small.
real normal(real x) { return (real)0.5 * erfc(-x * (real)0.70710678118654752440); }

// (1 + tanh(z)) / 2 of gelu's approximation (Hendrycks and Gimpel, 2016), in a form that keeps its
// digits where it is small.
real gelu_tanh_phi(real x) {
  const real z = (real)0.79788456080286535588 * (x + (real)0.044715 * x * x * x);
  return 1 / (1 + exp(-2 * z));
}
real gelu_tanh_slope(real x) {
  const real p = gelu_tanh_phi(x);
  // Finite, because it is multiplied by 0 where p is 0 or 1.
  const real near = clamp(x, (real)-1e4, (real)1e4);
  return p + x * p * (1 - p) * (real)1.59576912160573071176 * (1 + (real)0.134145 * near * near);
}

#define OF_X(name, value)                                  \
  kernel void name(BUFFER(x), BUFFER(y), long count) {     \
    OPEN(const real, x); OPEN(real, y); \
    const size_t i = get_global_id(0);                     \
    if (i >= count) return;                                \
    const real v = x[i];                                   \
    y[i] = value;                                          \
  }
OF_X(activation_1, v > 0 ? v : (v != v ? v : 0))
OF_X(activation_2, v *normal(v))
OF_X(activation_3, v *gelu_tanh_phi(v))
OF_X(activation_4, tanh(v))
OF_X(activation_5, 1 / (1 + exp(-v)))
OF_X(activation_6, exp(v))
OF_X(activation_7, log(v))
OF_X(activation_8, sqrt(v))
OF_X(activation_9, 1 / v)
OF_X(activation_11, sin(v))
OF_X(activation_12, cos(v))
OF_X(activation_13, floor(v))

// g is dy; v is y for relu, tanh and sigmoid, and x for the gelus.
#define OF_DY_AND_S(name, value)                                      \
  kernel void name(BUFFER(dy), BUFFER(s), BUFFER(dx), long count) {   \
    OPEN(const real, dy); OPEN(const real, s); OPEN(real, dx); \
    const size_t i = get_global_id(0);                                \
    if (i >= count) return;                                           \
    const real g = dy[i], v = s[i];                                   \
    dx[i] = value;                                                    \
  }
OF_DY_AND_S(activation_backward_1, v <= 0 ? 0 : g)
OF_DY_AND_S(activation_backward_2,
            g *(normal(v) + v * (real)0.39894228040143267794 * exp((real)-0.5 * v * v)))
OF_DY_AND_S(activation_backward_3, g *gelu_tanh_slope(v))
OF_DY_AND_S(activation_backward_4, g *(1 - v * v))
OF_DY_AND_S(activation_backward_5, g *v *(1 - v))

// Work items are columns (the last dim of the walk) and rows (all others).
#define OF_A_AND_B(name, value)                                                              \
  kernel void name(BUFFER(a), BUFFER(b), BUFFER(c), long rows, Walk walk) {                 \
    OPEN(const real, a); OPEN(const real, b); OPEN(real, c); \
    const long last = walk.rank - 1, columns = walk.dims[last];                              \
    const long column = get_global_id(0), row = get_global_id(1);                            \
    if (column >= columns || row >= rows) return;                                            \
    const long row_a = offset_of(last, walk.dims, walk.strides[0], row);                     \
    const long row_b = offset_of(last, walk.dims, walk.strides[1], row);                     \
    const real u = a[row_a + column * walk.strides[0][last]];                                \
    const real v = b[row_b + column * walk.strides[1][last]];                                \
    c[row * columns + column] = value;                                                       \
  }
OF_A_AND_B(add, u + v)
OF_A_AND_B(subtract, u - v)
OF_A_AND_B(multiply, u *v)
OF_A_AND_B(divide, u / v)

kernel void scale(BUFFER(x), BUFFER(y), long count, real alpha, real beta) {
  OPEN(const real, x); OPEN(real, y);
  const size_t i = get_global_id(0);
  if (i < count) y[i] = alpha * x[i] + beta;
}

kernel void fill(BUFFER(y), long count, real value) {
  OPEN(real, y);
  const size_t i = get_global_id(0);
  if (i < count) y[i] = value;
}

#define COPY(name, type)                               \
  kernel void name(BUFFER(x), BUFFER(y), long count) { \
    OPEN(const type, x); OPEN(type, y); \
    const size_t i = get_global_id(0);                 \
    if (i < count) y[i] = x[i];                        \
  }
COPY(copy_1, uchar)
COPY(copy_2, ushort)
COPY(copy_4, uint)
COPY(copy_8, ulong)

// With scale 0 nothing changes, whatever the gradient holds. Without decay the gradient is not
// touched by a parameter that is not finite.
kernel void sgd(BUFFER(param), BUFFER(grad), BUFFER(lr), BUFFER(scale), BUFFER(result), long count,
                real decay) {
  OPEN(const real, param); OPEN(const real, grad); OPEN(const real, lr);
  OPEN(const real, scale); OPEN(real, result);
  const size_t i = get_global_id(0);
  if (i >= count) return;
  const real g = scale[0] * grad[i] + (decay == 0 ? 0 : decay * param[i]);
  result[i] = scale[0] == 0 ? param[i] : param[i] - lr[0] * g;
}

kernel void sgd_momentum(BUFFER(param), BUFFER(grad), BUFFER(lr), BUFFER(scale), BUFFER(velocity),
                         BUFFER(result), BUFFER(new_velocity), long count, real decay,
                         real momentum, long nesterov) {
  OPEN(const real, param); OPEN(const real, grad); OPEN(const real, lr);
  OPEN(const real, scale); OPEN(const real, velocity); OPEN(real, result);
  OPEN(real, new_velocity);
  const size_t i = get_global_id(0);
  if (i >= count) return;
  const real p = param[i], old = velocity[i];
  const real g = scale[0] * grad[i] + (decay == 0 ? 0 : decay * p);
  const real v = momentum * old + g;
  const real step = nesterov ? g + momentum * v : v;
  result[i] = scale[0] == 0 ? p : p - lr[0] * step;
  new_velocity[i] = scale[0] == 0 ? old : v;
}
