// Infers output dims of each operation, and refuses operands that do not fit.
#include "runtime/graph/build.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/graph/broadcast.h"
#include "runtime/graph/rewriter.h"

namespace runtime::graph {

namespace {

std::vector<Attribute> padding_attributes(const Padding& p) {
  return {{RT_ATTR_PAD_TOP, p.top},
          {RT_ATTR_PAD_BOTTOM, p.bottom},
          {RT_ATTR_PAD_LEFT, p.left},
          {RT_ATTR_PAD_RIGHT, p.right}};
}

}  // namespace

std::vector<Attribute> attributes(const Convolution& c) {
  std::vector<Attribute> list = padding_attributes(c.padding);
  list.insert(list.end(), {{RT_ATTR_STRIDE_H, c.stride_h},
                           {RT_ATTR_STRIDE_W, c.stride_w},
                           {RT_ATTR_DILATION_H, c.dilation_h},
                           {RT_ATTR_DILATION_W, c.dilation_w},
                           {RT_ATTR_GROUPS, c.groups}});
  return list;
}

std::vector<Attribute> attributes(const Pooling& p) {
  std::vector<Attribute> list = padding_attributes(p.padding);
  list.insert(list.end(), {{RT_ATTR_KERNEL_H, p.kernel_h},
                           {RT_ATTR_KERNEL_W, p.kernel_w},
                           {RT_ATTR_STRIDE_H, p.stride_h},
                           {RT_ATTR_STRIDE_W, p.stride_w},
                           {RT_ATTR_COUNT_INCLUDE_PAD, static_cast<int64_t>(p.count_include_pad)}});
  return list;
}

int64_t window_output(int64_t input, int64_t pad_before, int64_t pad_after, int64_t kernel,
                      int64_t stride, int64_t dilation) {
  const int64_t room = input + pad_before + pad_after - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

void Build::fail(const std::string& message) const {
  throw ConfigurationError("layer '" + layer + "': " + message);
}

ValueId Build::new_value(const std::string& op, rt_dtype dtype, Dims dims) {
  return graph_.add_value(layer + "." + op, ValueKind::kTemporary, std::move(dims), dtype);
}

std::vector<ValueId> Build::node(const std::string& op, std::vector<ValueId> inputs,
                                 const std::vector<Dims>& dims, std::vector<Attribute> attributes,
                                 rt_dtype dtype) {
  if (dtype == 0) dtype = graph_.value(inputs.at(0)).dtype;
  std::vector<ValueId> outputs;
  for (const Dims& d : dims) outputs.push_back(new_value(op, dtype, d));
  node_into(op, std::move(inputs), outputs, std::move(attributes));
  return outputs;
}

ValueId Build::node1(const std::string& op, std::vector<ValueId> inputs, const Dims& dims,
                     std::vector<Attribute> attributes, rt_dtype dtype) {
  return node(op, std::move(inputs), {dims}, std::move(attributes), dtype)[0];
}

void Build::node_into(const std::string& op, std::vector<ValueId> inputs,
                      std::vector<ValueId> outputs, std::vector<Attribute> attributes) {
  graph_.nodes.push_back(
      Rewriter(graph_).node(op, layer, phase, std::move(inputs), std::move(outputs)));
  graph_.nodes.back().attributes = std::move(attributes);
}

ValueId Build::matmul(ValueId a, ValueId b, bool transpose_a, bool transpose_b) {
  const Dims &da = dims(a), &db = dims(b);
  if (da.size() < 2 || db.size() < 2)
    fail("matmul of " + to_string(da) + " and " + to_string(db) + ": both need two dimensions");
  const size_t ra = da.size(), rb = db.size();
  const int64_t m = da[transpose_a ? ra - 1 : ra - 2], ka = da[transpose_a ? ra - 2 : ra - 1];
  const int64_t kb = db[transpose_b ? rb - 1 : rb - 2], n = db[transpose_b ? rb - 2 : rb - 1];
  if (ka != kb) {
    fail("matmul of " + to_string(da) + (transpose_a ? " (transposed)" : "") + " and " +
         to_string(db) + (transpose_b ? " (transposed)" : "") + ": inner dimensions are " +
         std::to_string(ka) + " and " + std::to_string(kb));
  }
  Dims out(da.begin(), da.end() - 2);
  if (rb > 2 && !std::equal(out.begin(), out.end(), db.begin(), db.end() - 2)) {
    fail("matmul of " + to_string(da) + " and " + to_string(db) + ": leading dimensions differ");
  }
  out.push_back(m);
  out.push_back(n);
  return node1(RT_OP_MATMUL, {a, b}, out,
               {{RT_ATTR_TRANSPOSE_A, static_cast<int64_t>(transpose_a)},
                {RT_ATTR_TRANSPOSE_B, static_cast<int64_t>(transpose_b)}});
}

ValueId Build::conv2d(ValueId x, ValueId w, const Convolution& c) {
  const Dims &dx = dims(x), &dw = dims(w);
  if (dx.size() != 4) fail("conv2d needs an image [N,H,W,C], got " + to_string(dx));
  if (dx[3] != dw[3] * c.groups || dw[0] % c.groups != 0) {
    fail("conv2d of " + std::to_string(dx[3]) + " channels to " + std::to_string(dw[0]) + " in " +
         std::to_string(c.groups) + " groups: both must be multiples of the groups");
  }
  const Padding& p = c.padding;
  const Dims out = {dx[0], window_output(dx[1], p.top, p.bottom, dw[1], c.stride_h, c.dilation_h),
                    window_output(dx[2], p.left, p.right, dw[2], c.stride_w, c.dilation_w), dw[0]};
  if (out[1] <= 0 || out[2] <= 0) {
    fail("conv2d: a kernel of " + std::to_string(dw[1]) + "x" + std::to_string(dw[2]) +
         " does not fit into the padded image of " + std::to_string(dx[1]) + "x" +
         std::to_string(dx[2]) + "; use a smaller kernel or dilation, or more padding");
  }
  return node1(RT_OP_CONV2D, {x, w}, out, attributes(c));
}

Dims Build::window_dims(ValueId x, const Pooling& p, const char* what) {
  const Dims& d = dims(x);
  if (d.size() != 4) fail(std::string(what) + " needs an image [N,H,W,C], got " + to_string(d));
  Dims out = {d[0], window_output(d[1], p.padding.top, p.padding.bottom, p.kernel_h, p.stride_h, 1),
              window_output(d[2], p.padding.left, p.padding.right, p.kernel_w, p.stride_w, 1),
              d[3]};
  if (out[1] <= 0 || out[2] <= 0) {
    fail(std::string(what) + ": a window of " + std::to_string(p.kernel_h) + "x" +
         std::to_string(p.kernel_w) + " does not fit into an image of " + std::to_string(d[1]) +
         "x" + std::to_string(d[2]));
  }
  return out;
}

ValueId Build::max_pool2d(ValueId x, const Pooling& p) {
  return node1(RT_OP_MAX_POOL2D, {x}, window_dims(x, p, "max_pool2d"), attributes(p));
}

ValueId Build::avg_pool2d(ValueId x, const Pooling& p) {
  return node1(RT_OP_AVG_POOL2D, {x}, window_dims(x, p, "avg_pool2d"), attributes(p));
}

ValueId Build::global_avg_pool(ValueId x) {
  const Dims& d = dims(x);
  if (d.size() != 4) fail("global_avg_pool needs an image [N,H,W,C], got " + to_string(d));
  return node1(RT_OP_GLOBAL_AVG_POOL, {x}, {d[0], d[3]});
}

ValueId Build::activation(ValueId x, int32_t function) {
  return node1(RT_OP_ACTIVATION, {x}, Dims(dims(x)),
               {{RT_ATTR_FUNCTION, static_cast<int64_t>(function)}});
}

ValueId Build::broadcasting(const char* op, ValueId a, ValueId b) {
  const std::optional<Dims> out = broadcast(dims(a), dims(b));
  if (!out)
    fail(std::string(op) + " of " + to_string(dims(a)) + " and " + to_string(dims(b)) +
         ": the shapes do not broadcast");
  return node1(op, {a, b}, *out);
}

ValueId Build::add(ValueId a, ValueId b) { return broadcasting(RT_OP_ADD, a, b); }

ValueId Build::multiply(ValueId a, ValueId b) { return broadcasting(RT_OP_MULTIPLY, a, b); }

ValueId Build::scale(ValueId x, double alpha, double beta) {
  return node1(RT_OP_SCALE, {x}, Dims(dims(x)), {{RT_ATTR_ALPHA, alpha}, {RT_ATTR_BETA, beta}});
}

ValueId Build::reduce(ValueId x, int32_t function, uint64_t axes, bool keep_dims) {
  Dims out;
  for (size_t i = 0; i < dims(x).size(); ++i) {
    if (!(axes >> i & 1)) {
      out.push_back(dims(x)[i]);
    } else if (keep_dims) {
      out.push_back(1);
    }
  }
  return node1(RT_OP_REDUCE, {x}, out,
               {{RT_ATTR_FUNCTION, static_cast<int64_t>(function)},
                {RT_ATTR_AXES, static_cast<int64_t>(axes)}});
}

ValueId Build::square_sum(ValueId x) { return node1(RT_OP_SQUARE_SUM, {x}, {1}); }

ValueId Build::softmax(ValueId x) { return node1(RT_OP_SOFTMAX, {x}, Dims(dims(x))); }

ValueId Build::cast(ValueId x, rt_dtype dtype) {
  return graph_.value(x).dtype == dtype ? x : node1(RT_OP_CAST, {x}, Dims(dims(x)), {}, dtype);
}

ValueId Build::dropout(ValueId x, ValueId step, ValueId base, double probability, uint64_t seed,
                       int64_t stream) {
  return node1(RT_OP_DROPOUT, {x, step, base}, Dims(dims(x)),
               {{RT_ATTR_PROBABILITY, probability},
                {RT_ATTR_SEED, static_cast<int64_t>(seed)},
                {RT_ATTR_STREAM, stream}});
}

ValueId Build::batch_norm(ValueId x, ValueId gamma, ValueId beta, ValueId running_mean,
                          ValueId running_var, double epsilon, double momentum) {
  const ValueId out = new_value(RT_OP_BATCH_NORM, graph_.value(x).dtype, Dims(dims(x)));
  node_into(RT_OP_BATCH_NORM, {x, gamma, beta, running_mean, running_var},
            {out, running_mean, running_var},
            {{RT_ATTR_EPSILON, epsilon}, {RT_ATTR_MOMENTUM, momentum}});
  return out;
}

ValueId Build::batch_norm_in_parts(ValueId x, ValueId weight, ValueId gamma, ValueId beta,
                                   ValueId running_mean, ValueId running_var, double epsilon,
                                   double momentum) {
  const int64_t width = 2 * dims(x).back() + 1;
  const ValueId part = node1(RT_OP_BATCH_NORM_STATISTICS, {x, weight}, {1, width});
  const ValueId moments = new_value("moments", graph_.value(x).dtype, {width});
  node_into(RT_OP_BATCH_NORM_MERGE, {part, running_mean, running_var},
            {moments, running_mean, running_var}, {{RT_ATTR_MOMENTUM, momentum}});
  return node1(RT_OP_BATCH_NORM_APPLY, {x, gamma, beta, moments}, Dims(dims(x)),
               {{RT_ATTR_EPSILON, epsilon}});
}

ValueId Build::batch_norm_inference(ValueId x, ValueId gamma, ValueId beta, ValueId mean,
                                    ValueId var, double epsilon) {
  return node1(RT_OP_BATCH_NORM_INFERENCE, {x, gamma, beta, mean, var}, Dims(dims(x)),
               {{RT_ATTR_EPSILON, epsilon}});
}

ValueId Build::layer_norm(ValueId x, ValueId gamma, ValueId beta, double epsilon) {
  return node1(RT_OP_LAYER_NORM, {x, gamma, beta}, Dims(dims(x)), {{RT_ATTR_EPSILON, epsilon}});
}

ValueId Build::gated_activation(ValueId gate, ValueId up, int32_t function) {
  if (dims(gate) != dims(up)) {
    fail("gated_activation of " + to_string(dims(gate)) + " and " + to_string(dims(up)) +
         ": expected a gate and an up of equal dimensions");
  }
  return node1(RT_OP_GATED_ACTIVATION, {gate, up}, Dims(dims(gate)),
               {{RT_ATTR_FUNCTION, int64_t{function}}});
}

ValueId Build::rotary(ValueId x, ValueId turns, int64_t heads) {
  return node1(RT_OP_ROTARY, {x, turns}, Dims(dims(x)), {{RT_ATTR_HEADS, heads}});
}

ValueId Build::rms_norm(ValueId x, ValueId gamma, double epsilon) {
  return node1(RT_OP_RMS_NORM, {x, gamma}, Dims(dims(x)), {{RT_ATTR_EPSILON, epsilon}});
}

ValueId Build::attention(ValueId qkv, int64_t heads, bool causal) {
  const Dims& d = dims(qkv);
  if (d.size() != 3 || heads < 1 || d[2] % (3 * heads) != 0) {
    fail("attention of " + std::to_string(heads) + " heads on " + to_string(d) +
         ": expected [samples, length, features], the features q, k and v side by side, a " +
         "multiple of 3 times the heads");
  }
  return node1(RT_OP_ATTENTION, {qkv}, {d[0], d[1], d[2] / 3},
               {{RT_ATTR_HEADS, heads}, {RT_ATTR_CAUSAL, static_cast<int64_t>(causal)}});
}

ValueId Build::dot_product_attention(ValueId q, ValueId k, ValueId v,
                                     const DotProductAttention& a) {
  const Dims &dq = dims(q), &dk = dims(k), &dv = dims(v);
  const int64_t shared = a.key_heads > 0 ? a.key_heads : a.heads;
  const bool three = dq.size() == 3 && dk.size() == 3 && dv.size() == 3 && a.heads > 0;
  if (!three || a.heads % shared != 0 || dq[2] % a.heads != 0 ||
      dk != Dims{dq[0], dk[1], dq[2] / a.heads * shared} || dv[0] != dk[0] || dv[1] != dk[1] ||
      dv[2] % shared != 0) {
    fail("attention of " + std::to_string(a.heads) + " heads to " + std::to_string(shared) +
         " of keys on queries " + to_string(dq) + ", keys " + to_string(dk) + " and values " +
         to_string(dv) +
         ": expected [samples, length, heads times columns], as many columns for "
         "a head of keys as for one of queries, and heads that are a multiple of those of keys");
  }
  if (a.window > 0 && !a.causal) fail("attention has a window of keys only if it is causal");
  std::vector<ValueId> inputs = {q, k, v};
  if (a.probability > 0 || a.documents != kNone) inputs.insert(inputs.end(), {a.step, a.base});
  if (a.documents != kNone) inputs.push_back(a.documents);
  std::vector<Attribute> all = {{RT_ATTR_HEADS, a.heads},
                                {RT_ATTR_KEY_HEADS, shared},
                                {RT_ATTR_CAUSAL, static_cast<int64_t>(a.causal)}};
  if (a.window > 0) all.push_back({RT_ATTR_WINDOW, a.window});
  if (a.scale != 0) all.push_back({RT_ATTR_SCALE, a.scale});
  if (a.probability > 0) {
    all.push_back({RT_ATTR_PROBABILITY, a.probability});
    all.push_back({RT_ATTR_SEED, static_cast<int64_t>(a.seed)});
    all.push_back({RT_ATTR_STREAM, a.stream});
  }
  return node1(RT_OP_DOT_PRODUCT_ATTENTION, std::move(inputs),
               {dq[0], dq[1], dv[2] / shared * a.heads}, std::move(all));
}

ValueId Build::embedding(ValueId indices, ValueId table) {
  Dims out = dims(indices);
  out.push_back(dims(table).at(1));
  return node1(RT_OP_EMBEDDING, {indices, table}, out, {}, graph_.value(table).dtype);
}

ValueId Build::transpose(ValueId x, const std::vector<int>& permutation) {
  Dims out;
  int64_t packed = 0;
  for (size_t i = 0; i < permutation.size(); ++i) {
    out.push_back(dims(x).at(permutation[i]));
    packed |= static_cast<int64_t>(permutation[i]) << (4 * i);
  }
  return node1(RT_OP_TRANSPOSE, {x}, out, {{RT_ATTR_PERMUTATION, packed}});
}

ValueId Build::cross_entropy(ValueId logits, ValueId labels, ValueId weight) {
  return node1(RT_OP_CROSS_ENTROPY, {logits, labels, weight}, {1});
}

ValueId Build::mean_squared_error(ValueId y, ValueId target, ValueId weight) {
  return regression_loss(RT_OP_MEAN_SQUARED_ERROR, y, target, weight);
}

ValueId Build::regression_loss(const std::string& op, ValueId y, ValueId target, ValueId weight,
                               std::vector<Attribute> attributes) {
  if (dims(y) != dims(target)) {
    const std::string name = op.substr(op.rfind('.') + 1);
    fail(name + ": the model's output is " + to_string(dims(y)) + ", the targets are " +
         to_string(dims(target)) + "; the last layer must have one feature for each target");
  }
  return node1(op, {y, target, weight}, {1}, std::move(attributes));
}

ValueId Build::correct_count(ValueId logits, ValueId labels, ValueId weight) {
  return node1(RT_OP_CORRECT_COUNT, {logits, labels, weight}, {1});
}

void Build::collective(int32_t kind, int32_t reduction, int32_t communicator, ValueId x,
                       ValueId y) {
  CollectivePair pair = make_collective(graph_, kind, reduction, communicator, x, y);
  for (Node* n : {&pair.start, &pair.wait}) {
    n->layer = layer;
    n->phase = phase;
    graph_.nodes.push_back(std::move(*n));
  }
}

void Build::all_reduce_into(ValueId x, ValueId sum, int32_t communicator) {
  collective(RT_ALL_REDUCE, RT_SUM, communicator, x, sum);
}

ValueId Build::all_reduce(ValueId x, int32_t communicator) {
  const ValueId sum = new_value("all_reduce", graph_.value(x).dtype, Dims(dims(x)));
  all_reduce_into(x, sum, communicator);
  return sum;
}

ValueId Build::all_gather(ValueId x, int64_t ranks, int32_t communicator) {
  Dims all = dims(x);
  all[0] *= ranks;
  const ValueId y = new_value("all_gather", graph_.value(x).dtype, std::move(all));
  collective(RT_ALL_GATHER, 0, communicator, x, y);
  return y;
}

}  // namespace runtime::graph
