/* The mandatory operations in float32 and canonical layout. The formulas are in
 * plugins/operations.md; check.c has checked the shapes. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "example.h"

static const float* input(const rt_launch* launch, int i) { return launch->inputs[i]; }
static float* output(const rt_launch* launch) { return launch->outputs[0]; }

int64_t example_count(const rt_tensor_desc* tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor->rank; ++i) count *= tensor->dims[i];
  return count;
}

/* c [M,N] = a [M,K] b [K,N]. a is read with strides, because it may be transposed. The innermost
 * loop runs over contiguous rows of b and c. */
static void multiply_matrices(const float* a, int64_t a_row, int64_t a_column, const float* b,
                              float* c, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i) {
    float* row = c + i * n;
    memset(row, 0, (size_t)n * sizeof(float));
    for (int64_t p = 0; p < k; ++p) {
      const float factor = a[i * a_row + p * a_column];
      const float* b_row = b + p * n;
      for (int64_t j = 0; j < n; ++j) row[j] += factor * b_row[j];
    }
  }
}

/* out [K,N] is in [N,K] transposed. */
static void transpose(const float* in, float* out, int64_t k, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t p = 0; p < k; ++p) out[p * n + j] = in[j * k + p];
  }
}

void example_matmul(const rt_plan* plan, const rt_launch* launch) {
  const rt_tensor_desc* a = &plan->inputs[0];
  const rt_tensor_desc* c = &plan->outputs[0];
  const int64_t m = c->dims[c->rank - 2], n = c->dims[c->rank - 1];
  const int64_t k = a->dims[a->rank - (plan->transpose_a ? 2 : 1)];
  int64_t batches = 1;
  for (int32_t i = 0; i < c->rank - 2; ++i) batches *= c->dims[i];
  const int64_t b_step = plan->inputs[1].rank > 2 ? k * n : 0;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const float* b = input(launch, 1) + batch * b_step;
    if (plan->transpose_b) {
      transpose(b, launch->workspace, k, n);
      b = launch->workspace;
    }
    multiply_matrices(input(launch, 0) + batch * m * k, plan->transpose_a ? 1 : k,
                      plan->transpose_a ? m : 1, b, output(launch) + batch * m * n, m, n, k);
  }
}

static const float kInverseSqrt2 = 0.70710678f;
static const float kInverseSqrt2Pi = 0.39894228f;
static const float kSqrt2OverPi = 0.79788456f;
static const float kGeluCubic = 0.044715f; /* Hendrycks and Gimpel, "Gaussian Error Linear Units" */

/* The distribution function of the normal distribution, and its approximation by tanh, in forms
 * that keep their relative precision where the result is small. */
static float normal_cdf(float x) { return 0.5f * erfcf(-x * kInverseSqrt2); }
static float normal_cdf_by_tanh(float x) {
  return 1.0f / (1.0f + expf(-2.0f * kSqrt2OverPi * (x + kGeluCubic * x * x * x)));
}

static float activate(float x, int32_t function) {
  switch (function) {
    case RT_ACTIVATION_RELU:
      return x < 0.0f ? 0.0f : x; /* a NaN stays a NaN */
    case RT_ACTIVATION_GELU:
      return x * normal_cdf(x);
    case RT_ACTIVATION_GELU_TANH:
      return x * normal_cdf_by_tanh(x);
    case RT_ACTIVATION_TANH:
      return tanhf(x);
    default:
      return 1.0f / (1.0f + expf(-x));
  }
}

/* The derivative f', computed from the saved operand: y for tanh and sigmoid, x for the two gelus.
 */
static float derivative(float s, int32_t function) {
  switch (function) {
    case RT_ACTIVATION_GELU:
      return normal_cdf(s) + s * kInverseSqrt2Pi * expf(-0.5f * s * s);
    case RT_ACTIVATION_GELU_TANH: {
      const float cdf = normal_cdf_by_tanh(s);
      /* Clamped so that its square stays finite: where the cdf is 0 or 1, 0 times infinity would be
       * NaN. */
      const float near = s < -1e4f ? -1e4f : (s > 1e4f ? 1e4f : s);
      return cdf + s * cdf * (1.0f - cdf) * 2.0f * kSqrt2OverPi *
                       (1.0f + 3.0f * kGeluCubic * near * near);
    }
    case RT_ACTIVATION_TANH:
      return 1.0f - s * s;
    default:
      return s * (1.0f - s);
  }
}

void example_activation(const rt_plan* plan, const rt_launch* launch) {
  const int64_t count = example_count(&plan->outputs[0]);
  for (int64_t i = 0; i < count; ++i) {
    output(launch)[i] = activate(input(launch, 0)[i], plan->function);
  }
}

void example_activation_backward(const rt_plan* plan, const rt_launch* launch) {
  const int64_t count = example_count(&plan->outputs[0]);
  for (int64_t i = 0; i < count; ++i) {
    const float dy = input(launch, 0)[i], s = input(launch, 1)[i];
    if (plan->function == RT_ACTIVATION_RELU) {
      output(launch)[i] = s <= 0.0f ? 0.0f : dy; /* selects: 0 * infinite dy would be NaN */
    } else {
      output(launch)[i] = dy * derivative(s, plan->function);
    }
  }
}

/* Strides of `tensor` along the dims of `result`; 0 along broadcast dims. */
static void broadcast_strides(const rt_tensor_desc* tensor, const rt_tensor_desc* result,
                              int64_t* strides) {
  int64_t stride = 1;
  for (int32_t i = result->rank - 1, j = tensor->rank - 1; i >= 0; --i, --j) {
    strides[i] = j < 0 || tensor->dims[j] == 1 ? 0 : stride;
    if (j >= 0) stride *= tensor->dims[j];
  }
}

/* Advances `index` to the next element of `result` in row-major order, and the offsets *a and *b
 * with it. */
static void advance(const rt_tensor_desc* result, int64_t* index, const int64_t* a_strides,
                    int64_t* a, const int64_t* b_strides, int64_t* b) {
  for (int32_t d = result->rank - 1; d >= 0; --d) {
    *a += a_strides[d];
    *b += b_strides[d];
    if (++index[d] < result->dims[d]) return;
    *a -= a_strides[d] * result->dims[d];
    *b -= b_strides[d] * result->dims[d];
    index[d] = 0;
  }
}

#define BINARY(name, expression)                                                  \
  void name(const rt_plan* plan, const rt_launch* launch) {                       \
    const rt_tensor_desc* c = &plan->outputs[0];                                  \
    int64_t a_strides[RT_MAX_RANK], b_strides[RT_MAX_RANK];                       \
    int64_t index[RT_MAX_RANK] = {0}, a_offset = 0, b_offset = 0;                 \
    broadcast_strides(&plan->inputs[0], c, a_strides);                            \
    broadcast_strides(&plan->inputs[1], c, b_strides);                            \
    const int64_t count = example_count(c);                                       \
    for (int64_t i = 0; i < count; ++i) {                                         \
      const float a = input(launch, 0)[a_offset], b = input(launch, 1)[b_offset]; \
      output(launch)[i] = expression;                                             \
      advance(c, index, a_strides, &a_offset, b_strides, &b_offset);              \
    }                                                                             \
  }

BINARY(example_add, a + b)
BINARY(example_subtract, a - b)
BINARY(example_multiply, a* b)
BINARY(example_divide, a / b)

void example_scale(const rt_plan* plan, const rt_launch* launch) {
  const int64_t count = example_count(&plan->outputs[0]);
  const float alpha = (float)plan->alpha, beta = (float)plan->beta;
  for (int64_t i = 0; i < count; ++i) output(launch)[i] = alpha * input(launch, 0)[i] + beta;
}

/* Lists the sizes and strides of the reduced axes of x, or of the other axes if `reduced` is 0. */
static int32_t select_axes(const rt_tensor_desc* x, uint32_t axes, int reduced, int64_t* sizes,
                           int64_t* strides) {
  int64_t stride = 1;
  int32_t count = 0;
  int64_t all_strides[RT_MAX_RANK];
  for (int32_t i = x->rank - 1; i >= 0; --i) {
    all_strides[i] = stride;
    stride *= x->dims[i];
  }
  for (int32_t i = 0; i < x->rank; ++i) {
    if ((int)((axes >> i) & 1u) != reduced) continue;
    sizes[count] = x->dims[i];
    strides[count++] = all_strides[i];
  }
  return count;
}

/* The offset of element n, counted in row-major order over the listed axes. */
static int64_t offset_of(int64_t n, int32_t count, const int64_t* sizes, const int64_t* strides) {
  int64_t offset = 0;
  for (int32_t i = count - 1; i >= 0; --i) {
    offset += n % sizes[i] * strides[i];
    n /= sizes[i];
  }
  return offset;
}

void example_reduce(const rt_plan* plan, const rt_launch* launch) {
  const rt_tensor_desc* x = &plan->inputs[0];
  int64_t kept_sizes[RT_MAX_RANK], kept_strides[RT_MAX_RANK];
  int64_t sizes[RT_MAX_RANK], strides[RT_MAX_RANK];
  const int32_t kept = select_axes(x, plan->axes, 0, kept_sizes, kept_strides);
  const int32_t reduced = select_axes(x, plan->axes, 1, sizes, strides);
  int64_t terms = 1;
  for (int32_t i = 0; i < reduced; ++i) terms *= sizes[i];
  const int64_t count = example_count(&plan->outputs[0]);
  for (int64_t i = 0; i < count; ++i) {
    const float* base = input(launch, 0) + offset_of(i, kept, kept_sizes, kept_strides);
    double sum = 0.0;
    float largest = -INFINITY;
    for (int64_t j = 0; j < terms; ++j) {
      const float value = base[offset_of(j, reduced, sizes, strides)];
      sum += value;
      if (value > largest || value != value) largest = value; /* a NaN is the maximum */
    }
    if (plan->function == RT_REDUCE_MAX) {
      output(launch)[i] = largest;
    } else {
      output(launch)[i] = (float)(plan->function == RT_REDUCE_MEAN ? sum / (double)terms : sum);
    }
  }
}

/* The columns and the rows of logits [...,C]. */
static int64_t columns_of(const rt_plan* plan) {
  return plan->inputs[0].dims[plan->inputs[0].rank - 1];
}
static int64_t rows_of(const rt_plan* plan) { return example_count(&plan->inputs[1]); }

static float largest_of(const float* row, int64_t columns) {
  float largest = row[0];
  for (int64_t j = 1; j < columns; ++j) largest = row[j] > largest ? row[j] : largest;
  return largest;
}

/* log(sum(exp(row - largest))); it cannot overflow. */
static double log_sum_exp(const float* row, int64_t columns, float largest) {
  double sum = 0.0;
  for (int64_t j = 0; j < columns; ++j) sum += expf(row[j] - largest);
  return log(sum);
}

void example_cross_entropy(const rt_plan* plan, const rt_launch* launch) {
  const int64_t rows = rows_of(plan), columns = columns_of(plan);
  const int32_t* labels = launch->inputs[1];
  const float* weights = input(launch, 2);
  double loss = 0.0;
  for (int64_t i = 0; i < rows; ++i) {
    if (weights[i] == 0.0f) continue; /* padding */
    const float* row = input(launch, 0) + i * columns;
    const float largest = largest_of(row, columns);
    /* In this order: adding a large logit to the logarithm would round the logarithm away. */
    loss += weights[i] * (log_sum_exp(row, columns, largest) - (row[labels[i]] - largest));
  }
  output(launch)[0] = (float)loss;
}

void example_cross_entropy_backward(const rt_plan* plan, const rt_launch* launch) {
  const int64_t rows = rows_of(plan), columns = columns_of(plan);
  const int32_t* labels = launch->inputs[1];
  const float dloss = input(launch, 3)[0];
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = input(launch, 0) + i * columns;
    float* gradient = output(launch) + i * columns;
    if (input(launch, 2)[i] == 0.0f) { /* padding, which may hold anything */
      memset(gradient, 0, (size_t)columns * sizeof(float));
      continue;
    }
    const float factor = input(launch, 2)[i] * dloss;
    const float largest = largest_of(row, columns);
    const double log_sum = log_sum_exp(row, columns, largest);
    for (int64_t j = 0; j < columns; ++j) {
      const float softmax = (float)exp((row[j] - largest) - log_sum);
      gradient[j] = factor * (softmax - (j == labels[i] ? 1.0f : 0.0f));
    }
  }
}

void example_correct_count(const rt_plan* plan, const rt_launch* launch) {
  const int64_t rows = rows_of(plan), columns = columns_of(plan);
  const int32_t* labels = launch->inputs[1];
  int64_t correct = 0;
  for (int64_t i = 0; i < rows; ++i) {
    if (!(input(launch, 2)[i] > 0.0f)) continue;
    const float* row = input(launch, 0) + i * columns;
    int64_t best = 0;
    for (int64_t j = 1; j < columns; ++j) {
      const int first_nan = row[j] != row[j] && row[best] == row[best];
      if (row[j] > row[best] || first_nan) best = j;
    }
    correct += best == labels[i];
  }
  output(launch)[0] = (float)correct;
}

void example_copy(const rt_plan* plan, const rt_launch* launch) {
  memcpy(launch->outputs[0], launch->inputs[0],
         (size_t)example_count(&plan->outputs[0]) * 4); /* float32 or int32 */
}

void example_fill(const rt_plan* plan, const rt_launch* launch) {
  const int64_t count = example_count(&plan->outputs[0]);
  for (int64_t i = 0; i < count; ++i) output(launch)[i] = (float)plan->value;
}

void example_sgd(const rt_plan* plan, const rt_launch* launch) {
  const int64_t count = example_count(&plan->outputs[0]);
  const float lr = input(launch, 2)[0], scale = input(launch, 3)[0];
  const float decay = (float)plan->weight_decay;
  for (int64_t i = 0; i < count; ++i) {
    const float param = input(launch, 0)[i];
    const float decayed = decay == 0.0f ? 0.0f : decay * param; /* 0 * infinity would be NaN */
    const float step = lr * (scale * input(launch, 1)[i] + decayed);
    output(launch)[i] =
        scale == 0 ? param : param - step; /* scale 0: no update, for any gradient */
  }
}
