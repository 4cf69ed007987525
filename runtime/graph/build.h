// Emits operations into a graph: infers the output's dims and appends the node.
#ifndef RUNTIME_GRAPH_BUILD_H_
#define RUNTIME_GRAPH_BUILD_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::graph {

struct Padding {
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

struct Convolution {
  int64_t stride_h = 1, stride_w = 1;
  Padding padding;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;
};

struct Pooling {
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  Padding padding;
  bool count_include_pad = true;
};

// Size of a convolution's or pooling's output along one axis; <= 0 if the kernel does not fit.
int64_t window_output(int64_t input, int64_t pad_before, int64_t pad_after, int64_t kernel,
                      int64_t stride, int64_t dilation);

// Appends to `graph`; every node gets the current `layer` and `phase`. Throws ConfigurationError
// naming the layer, the shapes and what they should be.
class Build {
 public:
  explicit Build(Graph& graph) : graph_(graph) {}

  std::string layer;
  Phase phase = Phase::kForward;

  Graph& graph() { return graph_; }

  // The general form: one output value for each of `dims`, of the type of the first input unless
  // `dtype` is given.
  std::vector<ValueId> node(const std::string& op, std::vector<ValueId> inputs,
                            const std::vector<Dims>& dims, std::vector<Attribute> attributes = {},
                            rt_dtype dtype = 0);
  // The same with one output.
  ValueId node1(const std::string& op, std::vector<ValueId> inputs, const Dims& dims,
                std::vector<Attribute> attributes = {}, rt_dtype dtype = 0);
  // Writes into an existing value.
  void node_into(const std::string& op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                 std::vector<Attribute> attributes = {});

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
  // running_mean and running_var are updated in place.
  ValueId batch_norm(ValueId x, ValueId gamma, ValueId beta, ValueId running_mean,
                     ValueId running_var, double epsilon, double momentum);
  // The same in parts: statistics of the rows with weight > 0 (weight: [N]), merge, apply. What a
  // pass puts between the first two gives the parts of all ranks [R, 2C+1] for the own [1, 2C+1].
  ValueId batch_norm_in_parts(ValueId x, ValueId weight, ValueId gamma, ValueId beta,
                              ValueId running_mean, ValueId running_var, double epsilon,
                              double momentum);
  ValueId batch_norm_inference(ValueId x, ValueId gamma, ValueId beta, ValueId mean, ValueId var,
                               double epsilon);
  ValueId layer_norm(ValueId x, ValueId gamma, ValueId beta, double epsilon);
  // qkv: [N,T,3C], q, k and v side by side; gives [N,T,C].
  ValueId attention(ValueId qkv, int64_t heads, bool causal);
  ValueId embedding(ValueId indices, ValueId table);
  ValueId transpose(ValueId x, const std::vector<int>& permutation);
  ValueId cross_entropy(ValueId logits, ValueId labels, ValueId weight);
  ValueId mean_squared_error(ValueId y, ValueId target, ValueId weight);
  ValueId correct_count(ValueId logits, ValueId labels, ValueId weight);
  // The sum over the ranks of a communicator of what each of them has, on all of them. Its gradient
  // is that of every term.
  ValueId all_reduce(ValueId x, int32_t communicator);
  void all_reduce_into(ValueId x, ValueId sum, int32_t communicator);
  // What each of `ranks` has, below each other along dimension 0. For what has no gradient.
  ValueId all_gather(ValueId x, int64_t ranks, int32_t communicator);

 private:
  const Dims& dims(ValueId id) const { return graph_.value(id).dims; }
  ValueId new_value(const std::string& op, rt_dtype dtype, Dims dims);
  Dims window_dims(ValueId x, const Pooling& p, const char* what);
  void collective(int32_t kind, int32_t reduction, int32_t communicator, ValueId x, ValueId y);
  [[noreturn]] void fail(const std::string& message) const;
  Graph& graph_;
};

std::vector<Attribute> attributes(const Convolution& c);
std::vector<Attribute> attributes(const Pooling& p);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_BUILD_H_
