// Appends operations to a graph and infers the dims of their outputs.
#ifndef RUNTIME_GRAPH_BUILD_H_
#define RUNTIME_GRAPH_BUILD_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::graph {

// Elements of padding on each side of an image.
struct Padding {
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

// Attributes of a 2-D convolution, in elements. Equivalent to: the arguments of torch.nn.Conv2d.
struct Convolution {
  int64_t stride_h = 1, stride_w = 1;
  Padding padding;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;
};

// Attributes of a 2-D pooling, in elements. Equivalent to: those of torch.nn.AvgPool2d.
struct Pooling {
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  Padding padding;
  bool count_include_pad = true;
};

// Attributes of dot_product_attention, and the operands that it may have beside q, k and v.
// Equivalent to: the arguments of torch.nn.functional.scaled_dot_product_attention, with masks by
// rules instead of a matrix.
struct DotProductAttention {
  int64_t heads = 1, key_heads = 0;  // 0: as many as `heads`
  bool causal = false;
  int64_t window = 0;                  // keys that a query sees; 0: no limit
  double scale = 0;                    // of the scores; 0: 1 / sqrt(columns of a head)
  double probability = 0;              // of dropout, which needs step and base
  uint64_t seed = 0;                   // of dropout
  int64_t stream = 0;                  // the layer's number among those that draw masks
  ValueId step = kNone, base = kNone;  // int64 [1], see Build::dropout
  ValueId documents = kNone;           // int32 [N,T] or [N,T+S]; needs step and base as well
};

// The output size of a convolution or pooling along one axis; 0 if the kernel does not fit.
int64_t window_output(int64_t input, int64_t pad_before, int64_t pad_after, int64_t kernel,
                      int64_t stride, int64_t dilation);

// Appends nodes to `graph`, which must outlive this object; every node gets the current `layer` and
// `phase`. Operations whose shapes do not fit throw ConfigurationError, which names the layer,
// the shapes and what they should be. One thread at a time.
class Build {
 public:
  explicit Build(Graph& graph) : graph_(graph) {}

  std::string layer;
  Phase phase = Phase::kForward;

  Graph& graph() { return graph_; }

  // The general form: one new output value for each entry of `dims`, of the type of the first input
  // unless `dtype` is given. Dims are not checked.
  std::vector<ValueId> node(const std::string& op, std::vector<ValueId> inputs,
                            const std::vector<Dims>& dims, std::vector<Attribute> attributes = {},
                            rt_dtype dtype = 0);
  // As node(), for an operation with one output.
  ValueId node1(const std::string& op, std::vector<ValueId> inputs, const Dims& dims,
                std::vector<Attribute> attributes = {}, rt_dtype dtype = 0);
  // Appends a node that writes into existing values.
  void node_into(const std::string& op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                 std::vector<Attribute> attributes = {});

  // Operations of plugins/operations.md under their names; each returns the output value.
  ValueId matmul(ValueId a, ValueId b, bool transpose_a = false, bool transpose_b = false);
  ValueId conv2d(ValueId x, ValueId w, const Convolution& c);
  ValueId max_pool2d(ValueId x, const Pooling& p);
  ValueId avg_pool2d(ValueId x, const Pooling& p);
  ValueId global_avg_pool(ValueId x);
  ValueId activation(ValueId x, int32_t function);
  ValueId add(ValueId a, ValueId b);       // broadcasting
  ValueId multiply(ValueId a, ValueId b);  // broadcasting
  ValueId scale(ValueId x, double alpha, double beta = 0);
  ValueId reduce(ValueId x, int32_t function, uint64_t axes, bool keep_dims = false);
  ValueId square_sum(ValueId x);
  ValueId softmax(ValueId x);
  ValueId cast(ValueId x, rt_dtype dtype);
  ValueId dropout(ValueId x, ValueId step, ValueId base, double probability, uint64_t seed,
                  int64_t stream);
  // Training mode. The node updates running_mean and running_var in place.
  ValueId batch_norm(ValueId x, ValueId gamma, ValueId beta, ValueId running_mean,
                     ValueId running_var, double epsilon, double momentum);
  // Training mode as three nodes: the statistics [1, 2C+1] of the rows whose weight is above 0
  // (weight: [N]), their merge, and the normalisation. A later pass may insert a collective behind
  // the first node that gathers the statistics of all R ranks as [R, 2C+1].
  ValueId batch_norm_in_parts(ValueId x, ValueId weight, ValueId gamma, ValueId beta,
                              ValueId running_mean, ValueId running_var, double epsilon,
                              double momentum);
  ValueId batch_norm_inference(ValueId x, ValueId gamma, ValueId beta, ValueId mean, ValueId var,
                               double epsilon);
  ValueId layer_norm(ValueId x, ValueId gamma, ValueId beta, double epsilon);
  ValueId rms_norm(ValueId x, ValueId gamma, double epsilon);
  // qkv: [N,T,3C] with q, k and v side by side along the last axis. Returns [N,T,C].
  ValueId attention(ValueId qkv, int64_t heads, bool causal);
  // f(gate) * up; `function` is one of gated_activation.
  ValueId gated_activation(ValueId gate, ValueId up, int32_t function);
  // x: [N,T,C] of `heads` heads; turns: [T,D] or [N,T,D].
  ValueId rotary(ValueId x, ValueId turns, int64_t heads);
  // q: [N,T,heads D], k: [N,S,key_heads D], v: [N,S,key_heads E]. Returns [N,T,heads E].
  ValueId dot_product_attention(ValueId q, ValueId k, ValueId v, const DotProductAttention& a);
  ValueId embedding(ValueId indices, ValueId table);
  ValueId transpose(ValueId x, const std::vector<int>& permutation);
  ValueId cross_entropy(ValueId logits, ValueId labels, ValueId weight);
  ValueId mean_squared_error(ValueId y, ValueId target, ValueId weight);
  // `op` is mean_squared_error, or a loss from make_open_loss() in open_nodes.h.
  ValueId regression_loss(const std::string& op, ValueId y, ValueId target, ValueId weight,
                          std::vector<Attribute> attributes = {});
  ValueId correct_count(ValueId logits, ValueId labels, ValueId weight);
  // All-reduce: the sum of `x` over the ranks of a communicator, on every rank. The gradient of the
  // sum is the gradient of each term.
  ValueId all_reduce(ValueId x, int32_t communicator);
  // As all_reduce(), into an existing value.
  void all_reduce_into(ValueId x, ValueId sum, int32_t communicator);
  // All-gather: `x` of each of `ranks` ranks, concatenated along dimension 0. It has no gradient.
  ValueId all_gather(ValueId x, int64_t ranks, int32_t communicator);

 private:
  const Dims& dims(ValueId id) const { return graph_.value(id).dims; }
  ValueId new_value(const std::string& op, rt_dtype dtype, Dims dims);
  ValueId broadcasting(const char* op, ValueId a, ValueId b);
  Dims window_dims(ValueId x, const Pooling& p, const char* what);
  void collective(int32_t kind, int32_t reduction, int32_t communicator, ValueId x, ValueId y);
  [[noreturn]] void fail(const std::string& message) const;
  Graph& graph_;
};

// The attributes under the names of rt/operations.h.
std::vector<Attribute> attributes(const Convolution& c);
std::vector<Attribute> attributes(const Pooling& p);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_BUILD_H_
