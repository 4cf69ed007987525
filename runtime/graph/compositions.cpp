// The rows of the table: formulas of operations, their gradients and the updates of optimizers.
#include "runtime/graph/compositions.h"

#include <string>

#include "runtime/graph/activations.h"
#include "runtime/graph/loss_operations.h"
#include "runtime/graph/update_operations.h"

namespace runtime::graph {

namespace {

// Functions that other formulas use.
const std::vector<Formula> kFunctions = {
    // 1 where x > 0 or x is NaN, else 0.
    {"positive", "x -> y", "y = gate(1, x)"},
    // 1 where x is NaN, else 0.
    {"is_nan", "x -> y", "y = gate(1, -(x * x))"},
    // 1 where w equals y, the largest number of its row, else 0. A NaN is larger than any number.
    {"is_largest", "w y -> e",
     "d = y - w; e = 1 - positive(d) + is_nan(w) + is_nan(d) * (1 - is_nan(y))"},
    // The larger and the smaller of two: NaN where one is NaN, or where both are the same infinity.
    // Where they are equal, b gets the gradient.
    {"maximum", "a b -> y", "d = a - b; y = gate(a, d) + (b - gate(b, d))"},
    {"minimum", "a b -> y", "d = b - a; y = gate(a, d) + (b - gate(b, d))"},
    // 1 where x > 0, -1 where x < 0, else 0.
    {"sign_of", "x -> s", "s = positive(x) - positive(-x)"},
    // The gradient that an optimizer uses, and what it keeps in a step with the scale 0.
    {"scaled_gradient", "grad scale -> g", "g = gate(grad, scale) * scale"},
    {"unless_skipped", "a before scale -> b",
     "b = gate(a, scale) + gate(before, 1 - positive(scale))"},
    // 1 at the first of the largest numbers of each row, else 0.
    {"first_largest", "w[R*,K] -> first[R*,K]", R"(
      order[k<K] = K - k;
      s = is_largest(w, max(w, 1)) * order;
      first = 1 - positive(max(s, 1) - s))"},
};

// Rows are patches: a window of x for each element of y, in the order of a filter.
const std::vector<Formula> kConvolutions = {
    {RT_OP_CONV2D,
     "x[N,H,W,E] w[O,K,L,C]"
     "{stride_h=1 stride_w=1 dilation_h=1 dilation_w=1 pad_top pad_left groups=1} -> y[N,P,Q,O]",
     R"(
      windows[g<groups, n<N, p<P, q<Q, k<K, l<L, c<C] =
        x[n, p * stride_h + k * dilation_h - pad_top, q * stride_w + l * dilation_w - pad_left, g * C + c];
      patches[groups, N * P * Q, K * L * C] = windows;
      filters[groups, O / groups, K * L * C] = w;
      z = patches @ filters';
      y[i<N * P * Q, g<groups, o<O / groups] = z[g, i, o])"},
    {RT_OP_CONV2D_BACKWARD_DATA,
     "dy[N,P,Q,O] w[O,K,L,C]"
     "{stride_h=1 stride_w=1 dilation_h=1 dilation_w=1 pad_top pad_left groups=1} -> dx[N,H,W,E]",
     R"(
      rows[N * P * Q, groups, O / groups] = dy;
      dz[g<groups, i<N * P * Q, o<O / groups] = rows[i, g, o];
      filters[groups, O / groups, K * L * C] = w;
      windows = dz @ filters;
      windows[g<groups, n<N, p<P, q<Q, k<K, l<L, c<C] =>
        dx[n, p * stride_h + k * dilation_h - pad_top, q * stride_w + l * dilation_w - pad_left, g * C + c])"},
    {RT_OP_CONV2D_BACKWARD_WEIGHTS,
     "x[N,H,W,E] dy[N,P,Q,O]"
     "{stride_h=1 stride_w=1 dilation_h=1 dilation_w=1 pad_top pad_left groups=1} -> dw[O,K,L,C] "
     "db[O]?",
     R"(
      windows[g<groups, n<N, p<P, q<Q, k<K, l<L, c<C] =
        x[n, p * stride_h + k * dilation_h - pad_top, q * stride_w + l * dilation_w - pad_left, g * C + c];
      patches[groups, N * P * Q, K * L * C] = windows;
      rows[N * P * Q, groups, O / groups] = dy;
      dz[g<groups, i<N * P * Q, o<O / groups] = rows[i, g, o];
      dw = dz' @ patches;
      db = sum(rows, 0))"},
};

const std::vector<Formula> kPoolings = {
    // `w` has a row for each element of y, with -infinity for padding.
    {RT_OP_MAX_POOL2D,
     "x[N,H,W,C] {kernel_h kernel_w stride_h=1 stride_w=1 pad_top pad_left} -> y[N,P,Q,C]", R"(
      K = kernel_h * kernel_w;
      image = fill(1, H, W);
      inside[p<P, q<Q, k<kernel_h, l<kernel_w] =
        image[p * stride_h + k - pad_top, q * stride_w + l - pad_left];
      real[P * Q, 1, K] = inside;
      windows[n<N, p<P, q<Q, c<C, k<kernel_h, l<kernel_w] =
        x[n, p * stride_h + k - pad_top, q * stride_w + l - pad_left, c];
      filled[N, P * Q, C, K] = windows;
      w[N * P * Q * C, K] = filled + log(real);
      y = max(w, 1))"},
    // The first of equal elements gets the gradient, of several NaN the last.
    {RT_OP_MAX_POOL2D_BACKWARD,
     "dy[N,P,Q,C] {kernel_h kernel_w stride_h=1 stride_w=1 pad_top pad_left} with w y real K -> "
     "dx[N,H,W,C]",
     R"(
      candidates[N, P * Q, C, K] = is_largest(w, y);
      e[N * P * Q * C, K] = candidates * real;
      first[k<K] = K - k;
      last[k<K] = k + 1;
      s = e * (first + is_nan(y) * (last - first));
      dz[N * P * Q * C, 1] = dy;
      dw = gate(dz, 1 - positive(max(s, 1) - s));
      dw[n<N, p<P, q<Q, c<C, k<kernel_h, l<kernel_w] =>
        dx[n, p * stride_h + k - pad_top, q * stride_w + l - pad_left, c])"},
    {RT_OP_AVG_POOL2D,
     "x[N,H,W,C] {kernel_h kernel_w stride_h=1 stride_w=1 pad_top pad_left count_include_pad=1}"
     "-> y[N,P,Q,C]",
     R"(
      K = kernel_h * kernel_w;
      windows[n<N, p<P, q<Q, k<kernel_h, l<kernel_w, c<C] =
        x[n, p * stride_h + k - pad_top, q * stride_w + l - pad_left, c];
      w[N, P * Q, K, C] = windows;
      image = fill(1, H, W);
      inside[p<P, q<Q, k<kernel_h, l<kernel_w] =
        image[p * stride_h + k - pad_top, q * stride_w + l - pad_left];
      real[P * Q, K, 1] = inside;
      y = sum(w, 2) / (count_include_pad ? K : sum(real, 1)))"},
    {RT_OP_AVG_POOL2D_BACKWARD,
     "dy[N,P,Q,C] {kernel_h kernel_w stride_h=1 stride_w=1 pad_top pad_left count_include_pad=1}"
     "-> dx[N,H,W,C]",
     R"(
      K = kernel_h * kernel_w;
      image = fill(1, H, W);
      inside[p<P, q<Q, k<kernel_h, l<kernel_w] =
        image[p * stride_h + k - pad_top, q * stride_w + l - pad_left];
      real[P * Q, K, 1] = inside;
      dz[N, P * Q, 1, C] = dy;
      dw = fill(0, N, P * Q, K, C) + dz / (count_include_pad ? K : sum(real, 1));
      dw[n<N, p<P, q<Q, k<kernel_h, l<kernel_w, c<C] =>
        dx[n, p * stride_h + k - pad_top, q * stride_w + l - pad_left, c])"},
    {RT_OP_GLOBAL_AVG_POOL, "x[N,H,W,C] -> y[N,C]", "y = mean(x, 1, 2)"},
    {RT_OP_GLOBAL_AVG_POOL_BACKWARD, "dy[N,C] -> dx[N,H,W,C]",
     "dz[N, 1, 1, C] = dy / (H * W); dx = fill(0, N, H, W, C) + dz"},
};

const std::vector<Formula> kElementsAndSums = {
    {RT_OP_DROPOUT, "x step base -> y",
     "mask = host(dropout_mask, x, step, base); y = gate(x * mask, mask)"},
    {RT_OP_CAST, "x -> y", "y = host(cast, y, x)"},
    {RT_OP_SQUARE_SUM, "x[1,E*] -> s[1]", "s = sum(x * x, 1)"},
    {RT_OP_CLIP_SCALE, "s[1] {max_norm} -> c[1]", R"(
      a = max_norm / (sqrt(s) + 1e-6);
      c = gate(a, 1 - a) + (1 - positive(1 - a)))"},
};

const std::vector<Formula> kSoftmaxAndLosses = {
    {RT_OP_SOFTMAX, "x[R*,D] -> y[R*,D]", "e = exp(x - max(x, 1)); y = e / sum(e, 1)"},
    {RT_OP_SOFTMAX_BACKWARD, "dy[R*,D] y[R*,D] -> dx[R*,D]", "dx = y * (dy - sum(dy * y, 1))"},
    {RT_OP_LOG_SOFTMAX, "x[R*,D] -> y[R*,D]", "d = x - max(x, 1); y = d - log(sum(exp(d), 1))"},
    {RT_OP_LOG_SOFTMAX_BACKWARD, "dy[R*,D] y[R*,D] -> dx[R*,D]", "dx = dy - exp(y) * sum(dy, 1)"},
    {RT_OP_MEAN_SQUARED_ERROR, "y[N,D*] target[N,D*] weight[N,1] -> loss[1]",
     "d = y - target; loss = sum(gate(weight * mean(d * d, 1), weight), 0)"},
    {RT_OP_MEAN_SQUARED_ERROR_BACKWARD, "y[N,D*] target[N,D*] weight[N,1] dloss[1] -> dy[N,D*]",
     "dy = gate((y - target) * (weight * dloss * (2 / D)), weight)"},
    {kUniformCrossEntropy, "y[R*,C] weight[R*,1] -> loss[1]", R"(
      d = y - max(y, 1);
      loss = sum(gate(weight * (log(sum(exp(d), 1)) - mean(d, 1)), weight), 0))"},
    {"uniform_cross_entropy_backward", "y[R*,C] weight[R*,1] dloss[1] -> dy[R*,C]", R"(
      e = exp(y - max(y, 1));
      dy = gate((e / sum(e, 1) - 1 / C) * (weight * dloss), weight))"},
    {kShareOfWeight, "w {factor} -> s", "s = factor * w"},
    {kWeightOfSamples, "w[N,T] {factor} -> s[N,1]", "s = factor * sum(w, 1)"},
    // `lowest` is 1 for a row of only -infinity. Classes are numbered from 1 in `number`, so that
    // `label` is 0 where another slice has the label.
    {RT_OP_CROSS_ENTROPY_STATISTICS, "logits[R*,C] labels[R*] {first_class=0} -> part[A,R,B]", R"(
      m = max(logits, 1);
      lowest = is_nan(m - m) * (1 - is_nan(m)) * positive(-m);
      s = gate(sum(exp(logits - m), 1), 1 - lowest);
      number[c<C] = c + 1;
      table[C, 1] = number;
      label = rows(table, labels, first_class);
      d = number - label;
      hot = 1 - positive(d * d);
      at_label = sum(gate(logits, hot), 1);
      hit = sum(gate(first_largest(logits), hot), 1);
      m[r<R] => part[0, r, 0];
      s[r<R] => part[0, r, 1];
      at_label[r<R] => part[0, r, 2];
      hit[r<R] => part[0, r, 3])"},
    {RT_OP_CROSS_ENTROPY_MERGE, "parts[G,R,B] weight[R*,1] -> loss[1] rows[R,A] count[1]", R"(
      largest[r<R, g<G] = parts[g, r, 0];
      sums[r<R, g<G] = parts[g, r, 1];
      at_label[r<R, g<G] = parts[g, r, 2];
      hits[r<R, g<G] = parts[g, r, 3];
      m = max(largest, 1);
      s = log(sum(sums * exp(largest - m), 1));
      loss = sum(weight * gate(s - (sum(at_label, 1) - m), weight), 0);
      used = gate(m, weight);
      logs = gate(s, weight);
      used[r<R] => rows[r, 0];
      logs[r<R] => rows[r, 1];
      hit = sum(gate(hits, first_largest(largest)), 1);
      count = sum(gate(positive(hit * hit), weight), 0))"},
    {RT_OP_CROSS_ENTROPY_BACKWARD_APPLY,
     "logits[R*,C] labels[R*] weight[R*,1] dloss[1] rows[R,B] {first_class=0} -> dlogits[R*,C]", R"(
      m[r<R, i<1] = rows[r, 0];
      s[r<R, i<1] = rows[r, 1];
      number[c<C] = c + 1;
      table[C, 1] = number;
      d = number - rows(table, labels, first_class);
      hot = 1 - positive(d * d);
      dlogits = gate(weight * dloss * (exp(logits - m - s) - hot), weight))"},
};

// Mean and variance are corrected by the mean of the deviations, which are not zero because the
// mean is rounded.
const std::vector<Formula> kNormalisations = {
    {RT_OP_BATCH_NORM,
     "x[R*,C] gamma[C] beta[C] running_mean[C] running_var[C] {epsilon momentum=0.1}"
     "-> y[R*,C] running_mean[C] running_var[C]",
     R"(
      a = mean(x, 0);
      d = x - a;
      rest = mean(d, 0);
      e = d - rest;
      v = mean(e * e, 0);
      r = reciprocal(sqrt(v + epsilon));
      xhat = e * r;
      y = xhat * gamma + beta;
      more = R - 1;
      running_mean = (1 - momentum) * running_mean + momentum * (a + rest);
      running_var = (1 - momentum) * running_var + (momentum * (more ? R / more : 1)) * v)"},
    {RT_OP_BATCH_NORM_BACKWARD,
     "dy[R*,C] x[R*,C] gamma[C] with xhat r -> dx[R*,C] dgamma[C] dbeta[C]", R"(
      dbeta = sum(dy, 0);
      dgamma = sum(dy * xhat, 0);
      dx = gamma * r * (dy - dbeta / R - xhat * (dgamma / R)))"},
    {RT_OP_BATCH_NORM_INFERENCE, "x[R*,C] gamma[C] beta[C] mu[C] var[C] {epsilon} -> y[R*,C]",
     "y = (x - mu) * reciprocal(sqrt(var + epsilon)) * gamma + beta"},
    {RT_OP_LAYER_NORM, "x[R*,D] gamma[D] beta[D] {epsilon} -> y[R*,D]", R"(
      d = x - mean(x, 1);
      e = d - mean(d, 1);
      r = reciprocal(sqrt(mean(e * e, 1) + epsilon));
      xhat = e * r;
      y = xhat * gamma + beta)"},
    {RT_OP_LAYER_NORM_BACKWARD,
     "dy[R*,D] x[R*,D] gamma[D] with xhat r -> dx[R*,D] dgamma[D] dbeta[D]", R"(
      g = dy * gamma;
      dgamma = sum(dy * xhat, 0);
      dbeta = sum(dy, 0);
      dx = r * (g - mean(g, 1) - xhat * mean(g * xhat, 1)))"},
    {RT_OP_RMS_NORM, "x[R*,D] gamma[D] {epsilon} -> y[R*,D]", R"(
      r = reciprocal(sqrt(mean(x * x, 1) + epsilon));
      xhat = x * r;
      y = xhat * gamma)"},
    {RT_OP_RMS_NORM_BACKWARD, "dy[R*,D] x[R*,D] gamma[D] with xhat r -> dx[R*,D] dgamma[D]", R"(
      g = dy * gamma;
      dgamma = sum(dy * xhat, 0);
      dx = r * (g - xhat * mean(g * xhat, 1)))"},
    {RT_OP_BATCH_NORM_STATISTICS, "x[N,S*,C] weight[N,1,1] -> part[A,M]", R"(
      real = positive(weight);
      n = S * sum(real, 0);
      divisor = n + (1 - positive(n));
      a = sum(x * real, 0, 1) / divisor;
      mu = a + sum((x - a) * real, 0, 1) / divisor;
      d = (x - mu) * real;
      squares = sum(d * d, 0, 1);
      mu[c<C] => part[0, c];
      squares[c<C] => part[0, C + c];
      n[i<1] => part[0, 2 * C])"},
    {RT_OP_BATCH_NORM_MERGE,
     "parts[G,M] running_mean[C] running_var[C] {momentum=0.1}"
     "-> moments[M] running_mean[C] running_var[C]",
     R"(
      means[g<G, c<C] = parts[g, c];
      deviations[g<G, c<C] = parts[g, C + c];
      counts[g<G, i<1] = parts[g, 2 * C];
      n = sum(counts, 0);
      some = positive(n);
      divisor = n + (1 - some);
      a = sum(gate(counts * means, counts), 0) / divisor;
      d = means - a;
      v = sum(gate(deviations + counts * (d * d), counts), 0) / divisor;
      more = n - 1;
      bessel = n / (more + (1 - positive(more)));
      a[c<C] => moments[c];
      v[c<C] => moments[C + c];
      n[i<1] => moments[2 * C];
      running_mean = gate((1 - momentum) * running_mean + momentum * a, some) + gate(running_mean, 1 - some);
      running_var = gate((1 - momentum) * running_var + momentum * (bessel * v), some) + gate(running_var, 1 - some))"},
    {RT_OP_BATCH_NORM_APPLY, "x[R*,C] gamma[C] beta[C] moments[M] {epsilon} -> y[R*,C]", R"(
      mu[c<C] = moments[c];
      v[c<C] = moments[C + c];
      y = (x - mu) * reciprocal(sqrt(v + epsilon)) * gamma + beta)"},
    {RT_OP_BATCH_NORM_BACKWARD_STATISTICS, "dy[R*,C] x[R*,C] moments[M] {epsilon} -> sums[A,B]", R"(
      mu[c<C] = moments[c];
      v[c<C] = moments[C + c];
      s = sum(dy, 0);
      t = sum(dy * (x - mu), 0) * reciprocal(sqrt(v + epsilon));
      s[c<C] => sums[0, c];
      t[c<C] => sums[0, C + c])"},
    {RT_OP_BATCH_NORM_BACKWARD_APPLY,
     "dy[N,S*,C] x[N,S*,C] gamma[C] moments[M] sums[B] weight[N,1,1] {epsilon} -> dx[N,S*,C]", R"(
      mu[c<C] = moments[c];
      v[c<C] = moments[C + c];
      n[i<1] = moments[2 * C];
      s[c<C] = sums[c];
      t[c<C] = sums[C + c];
      r = reciprocal(sqrt(v + epsilon));
      divisor = n + (1 - positive(n));
      dx = gate(gamma * r * (dy - s / divisor - (x - mu) * (r * t / divisor)), weight * positive(n)))"},
};

const std::vector<Formula> kAttention = {
    {RT_OP_ATTENTION, "qkv[N,T,F] {heads causal=0} -> y[N,T,C]", R"(
      D = C / heads;
      q[n<N, h<heads, t<T, d<D] = qkv[n, t, h * D + d];
      k[n<N, h<heads, t<T, d<D] = qkv[n, t, C + h * D + d];
      v[n<N, h<heads, t<T, d<D] = qkv[n, t, 2 * C + h * D + d];
      one = fill(1, T);
      earlier[i<T, j<T] = one[i - j];
      scores = q @ k' / sqrt(D);
      w = causal ? scores + log(earlier) : scores;
      e = exp(w - max(w, 3));
      softmax = e / sum(e, 3);
      p = causal ? gate(softmax, earlier) : softmax;
      o = p @ v;
      y[n<N, t<T, h<heads, d<D] = o[n, h, t, d])"},
    {RT_OP_ATTENTION_BACKWARD,
     "dy[N,T,C] qkv[N,T,F] y[N,T,C] {heads causal=0} with q k v p earlier D -> dqkv[N,T,F]", R"(
      g[n<N, h<heads, t<T, d<D] = dy[n, t, h * D + d];
      o[n<N, h<heads, t<T, d<D] = y[n, t, h * D + d];
      changes = p * (g @ v' - sum(g * o, 3)) / sqrt(D);
      ds = causal ? gate(changes, earlier) : changes;
      dq = ds @ k;
      dk = ds' @ q;
      dv = p' @ g;
      dq[n<N, h<heads, t<T, d<D] => dqkv[n, t, h * D + d];
      dk[n<N, h<heads, t<T, d<D] => dqkv[n, t, C + h * D + d];
      dv[n<N, h<heads, t<T, d<D] => dqkv[n, t, 2 * C + h * D + d])"},
};

const std::vector<Formula> kMovement = {
    {RT_OP_SLICE, "x[A^axis,L,B*] {start} -> y[A^axis,M,B*]",
     "y[a<A, m<M, b<B] = x[a, m + start, b]"},
    {RT_OP_PAD, "x[A^axis,L,B*] {start} -> y[A^axis,M,B*]",
     "y[a<A, m<M, b<B] = x[a, m - start, b]"},
};

// With a scale of 0 the outputs equal the inputs; `rest` is 1 then, else 0.
const std::vector<Formula> kOptimizers = {
    {RT_OP_SGD,
     "p[E*] grad[E*] lr[1] scale[1] velocity[E*]? {momentum=0 nesterov=0 weight_decay=0}"
     "-> p[E*] velocity[E*]?",
     R"(
      scaled = gate(grad, scale) * scale;
      g = weight_decay ? scaled + weight_decay * p : scaled;
      rest = 1 - positive(scale);
      v = momentum ? gate(momentum * velocity + g, scale) + gate(velocity, rest) : g;
      velocity = v;
      p = p - gate(lr * (nesterov ? g + momentum * v : v), scale))"},
    {RT_OP_ADAMW,
     "p[E*] grad[E*] lr[1] scale[1] m[E*] v[E*] step {beta1 beta2 epsilon weight_decay=0}"
     "-> p[E*] m[E*] v[E*]",
     R"(
      g = gate(grad, scale) * scale;
      rest = 1 - positive(scale);
      m = gate(beta1 * m + (1 - beta1) * g, scale) + gate(m, rest);
      v = gate(beta2 * v + (1 - beta2) * (g * g), scale) + gate(v, rest);
      mhat = m / host(bias_correction, lr, step, beta1);
      vhat = v / host(bias_correction, lr, step, beta2);
      rate = gate(lr, scale);
      p = p * (1 - weight_decay * rate) - rate * (mhat / (sqrt(vhat) + epsilon)))"},
};

// With a scale of 0 the padding between gradients must stay 0 all the same, because their norm
// includes it.
const std::vector<Formula> kUpdates = {
    {kSgdDampened,
     "p[E*] grad[E*] lr[1] scale[1] velocity[E*] first[1] {momentum dampening scaled=1}"
     "-> p[E*] velocity[E*]",
     R"(
      g = scaled ? scaled_gradient(grad, scale) : grad;
      v = momentum * velocity + (1 - dampening + dampening * first) * g;
      velocity = scaled ? unless_skipped(v, velocity, scale) : v;
      p = p - (scaled ? gate(lr * v, scale) : lr * v))"},
    {kAddWeightDecay, "g[E*] p[E*] scale[1] {weight_decay scaled=1} -> g[E*]",
     "g = g + (scaled ? gate(weight_decay / scale, scale) : weight_decay) * p"},
    // `over` and `under` are both 1 where the number is NaN, which stays.
    {kClipValue, "g[E*] scale[1] {max_value scaled=1} -> g[E*]", R"(
      x = scaled ? g * scale : g;
      over = positive(x - max_value);
      under = positive(-max_value - x);
      y = gate(x, 1 - over - under) + max_value * (over - under) + gate(x, over * under);
      g = scaled ? y / (scale + 1 - positive(scale)) : y)"},
    {kMovingAverage, "a[E*] p[E*] {decay} -> a[E*]", "a = decay * a + (1 - decay) * p"},
};

std::string numbered(const char* name, size_t i) { return name + std::to_string(i); }

std::vector<Formula> all_rows() {
  std::vector<Formula> rows;
  for (const auto* family :
       {&kFunctions, &kConvolutions, &kPoolings, &kElementsAndSums, &kSoftmaxAndLosses,
        &kNormalisations, &kAttention, &kMovement, &kOptimizers, &kUpdates})
    rows.insert(rows.end(), family->begin(), family->end());
  return rows;
}

// What dot_product_attention is asked for beside products and a softmax.
struct AttentionForms {
  bool causal, documents, drops;
  explicit AttentionForms(const Node& node, size_t operands)
      : causal(integer_attribute(node, RT_ATTR_CAUSAL, 0) != 0),
        documents(node.inputs.size() > operands + 2),
        drops(number_attribute(node, RT_ATTR_PROBABILITY, 0) > 0) {}
  bool hides() const { return causal || documents; }
};

constexpr const char* kAttentionAttributes =
    " step? base? documents? {heads key_heads=0 causal=0 window=0 scale=0 probability=0 seed=0 "
    "stream=0 first_head=0}";

}  // namespace

const std::vector<Formula>& compositions() {
  static const std::vector<Formula>& rows = *new std::vector<Formula>(all_rows());
  return rows;
}

const Formula* find_formula(std::string_view op) {
  for (const Formula& row : compositions()) {
    if (row.op == op) return &row;
  }
  return nullptr;
}

// The permutation as a formula for the number of dimensions: y[i1<D1, i0<D0] = x[i0, i1].
Formula transpose_formula(const Graph& graph, const Node& node) {
  const size_t rank = graph.value(node.inputs[0]).dims.size();
  const int64_t permutation = integer_attribute(node, RT_ATTR_PERMUTATION, 0);
  std::string seen, ranges, places;
  for (size_t i = 0; i < rank; ++i) {
    const char* const comma = i == 0 ? "" : ",";
    const auto from = static_cast<size_t>(permutation >> (4 * i) & 15);
    seen += comma + numbered("D", i);
    places += comma + numbered("i", i);
    ranges += comma + numbered("i", from) + '<' + numbered("D", from);
  }
  return {RT_OP_TRANSPOSE, "x[" + seen + "] -> y", "y[" + ranges + "] = x[" + places + "]"};
}

// Each input is added to zeros at its place.
Formula concat_formula(const Graph&, const Node& node) {
  std::string inputs, text, start = "0";
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string x = numbered("x", i), length = numbered("L", i);
    inputs += x + "[A^axis," + length + ",B*] ";
    text += x + "[a<A, l<" + length + ", b<B] => y[a, l + " + start + ", b];";
    start += " + " + length;
  }
  return {RT_OP_CONCAT, inputs + "-> y[A^axis,M,B*]", text};
}

Formula gated_activation_formula(const Graph&, const Node& node) {
  const int64_t function = integer_attribute(node, RT_ATTR_FUNCTION, 0);
  const std::string name(activation_name(function));
  const std::string value =
      function == RT_ACTIVATION_SILU ? "gate * sigmoid(gate)" : name + "(gate)";
  return {RT_OP_GATED_ACTIVATION, "gate up -> y", "y = " + value + " * up"};
}

Formula gated_activation_backward_formula(const Graph&, const Node& node) {
  const int64_t function = integer_attribute(node, RT_ATTR_FUNCTION, 0);
  const std::string name(activation_name(function));
  const std::string gradient =
      function == RT_ACTIVATION_SILU
          ? "s = sigmoid(gate); f = gate * s; dgate = dy * up * (s + f * (1 - s))"
          : "f = " + name + "(gate); dgate = " + name + "_backward(dy * up, " +
                (backward_reads_operand(function) ? "gate)" : "f)");
  return {RT_OP_GATED_ACTIVATION_BACKWARD, "dy gate up -> dgate dup", gradient + "; dup = dy * f"};
}

Formula rotary_formula(const Graph& graph, const Node& node) {
  const int64_t heads = integer_attribute(node, RT_ATTR_HEADS, 1);
  const bool copies =
      graph.value(node.inputs[1]).dims.back() * heads < graph.value(node.inputs[0]).dims.back();
  return {RT_OP_ROTARY, "x[R*,C] turns[P*,D] {heads inverse=0} -> y[R*,C]",
          std::string(R"(
      w = C / heads;
      h = D / 2;
      a[r<R / P, p<P, k<heads, i<h] = x[r * P + p, k * w + i];
      b[r<R / P, p<P, k<heads, i<h] = x[r * P + p, k * w + h + i];
      cosine[p<P, k<1, i<h] = turns[p, i];
      sine[p<P, k<1, i<h] = turns[p, h + i];
      turned = inverse ? -sine : sine;
      first = a * cosine - b * turned;
      second = b * cosine + a * turned;
      first[r<R / P, p<P, k<heads, i<h] => y[r * P + p, k * w + i];
      second[r<R / P, p<P, k<heads, i<h] => y[r * P + p, k * w + h + i])") +
              (copies ? R"(;
      rest[n<R, k<heads, i<w - D] = x[n, k * w + D + i];
      rest[n<R, k<heads, i<w - D] => y[n, k * w + D + i])"
                      : "")};
}

// Query heads that share keys lie below one another in `rows`. Queries that see no key have weights
// of 0.
Formula dot_product_attention_formula(const Graph&, const Node& node) {
  const AttentionForms forms(node, 3);
  std::string text = R"(
      K = key_heads ? key_heads : heads;
      G = heads / K;
      D = F / heads;
      E = C / heads;
      factor = scale ? scale : 1 / sqrt(D);
      queries[n<N, h<heads, t<T, d<D] = q[n, t, h * D + d];
      rows[N, K, G * T, D] = queries;
      keys[n<N, h<K, s<S, d<D] = k[n, s, h * D + d];
      values[n<N, h<K, s<S, e<E] = v[n, s, h * E + e];
      scores[N, heads, T, S] = rows @ keys' * factor;)";
  if (forms.causal) {
    text += R"(
      one = fill(1, window ? window : S);
      near[i<T, j<S] = one[i + S - T - j];)";
  }
  if (forms.documents) text += "same = host(attention_documents, scores, documents);";
  if (forms.hides()) {
    text += std::string("seen = ") + (!forms.causal     ? "same"
                                      : forms.documents ? "same * near"
                                                        : "near");
    text += "; z = scores + log(seen); e = exp(z - max(z, 3)); p = gate(e / sum(e, 3), seen);";
  } else {
    text += "e = exp(scores - max(scores, 3)); p = e / sum(e, 3);";
  }
  text += forms.drops
              ? "mask = host(attention_dropout, p, step, base); kept = gate(p * mask, mask);"
              : "kept = p;";
  text += R"(
      w[N, K, G * T, S] = kept;
      o[N, heads, T, E] = w @ values;
      y[n<N, t<T, h<heads, e<E] = o[n, h, t, e])";
  return {node.op,
          std::string("q[N,T,F] k[N,S,U] v[N,S,V]") + kAttentionAttributes + " -> y[N,T,C]", text};
}

Formula dot_product_attention_backward_formula(const Graph&, const Node& node) {
  const AttentionForms forms(node, 5);
  std::string text = R"(
      g[n<N, h<heads, t<T, e<E] = dy[n, t, h * E + e];
      o[n<N, h<heads, t<T, e<E] = y[n, t, h * E + e];
      dz[N, K, G * T, E] = g;
      dw[N, heads, T, S] = dz @ values';)";
  text += forms.drops ? "dp = gate(dw * mask, mask);" : "dp = dw;";
  text += "changes = p * (dp - sum(g * o, 3)) * factor;";
  text +=
      forms.hides() ? "ds[N, K, G * T, S] = gate(changes, seen);" : "ds[N, K, G * T, S] = changes;";
  text += R"(
      drows[N, heads, T, D] = ds @ keys;
      dkeys = ds' @ rows;
      dvalues = w' @ dz;
      drows[n<N, h<heads, t<T, d<D] => dq[n, t, h * D + d];
      dkeys[n<N, h<K, s<S, d<D] => dk[n, s, h * D + d];
      dvalues[n<N, h<K, s<S, e<E] => dv[n, s, h * E + e])";
  std::string terms = " with rows keys values p w K G D E factor";
  if (forms.hides()) terms += " seen";
  if (forms.drops) terms += " mask";
  return {node.op,
          std::string("dy[N,T,C] q[N,T,F] k[N,S,U] v[N,S,V] y[N,T,C]") + kAttentionAttributes +
              terms + " -> dq[N,T,F] dk[N,S,U] dv[N,S,V]",
          text};
}

}  // namespace runtime::graph
