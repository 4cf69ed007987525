// NetworkParts adds the inputs, parameters and constants of layers to the graph of a network.
#ifndef RUNTIME_MODEL_NETWORK_PARTS_H_
#define RUNTIME_MODEL_NETWORK_PARTS_H_

#include <map>
#include <set>
#include <string>

#include "runtime/graph/build.h"
#include "runtime/model/network.h"

namespace runtime::model {

// A network while it is built. Used by one thread; `model` and `options` must outlive it.
class NetworkParts {
 protected:
  using Dims = graph::Dims;
  using ValueId = graph::ValueId;

  NetworkParts(const Model& model, const NetworkOptions& options)
      : model_(model), options_(options), build_(net_.graph) {}

  const Dims& dims(ValueId v) const { return net_.graph.value(v).dims; }
  bool extends() const { return options_.cache == CacheUse::kExtend; }

  ValueId input(const std::string& name, Dims shape, rt_dtype dtype);
  // The named input of the samples, whose values have these dims for each sample.
  ValueId named_input(const std::string& name, Dims shape, bool integers);
  ValueId parameter(const std::string& name, const Dims& shape, Init init, bool trainable = true);
  // Makes a parameter with the initial values and the penalty of a layer's weight.
  ValueId weight(const std::string& name, const Layer& layer, const Dims& shape, int64_t fan_in,
                 int64_t fan_out);
  // Makes a table of rows. By default, values are drawn from N(0, 1) as in PyTorch's nn.Embedding.
  ValueId table(const Layer& layer, const std::string& name, int64_t rows, int64_t features);
  // With the initialisation "default", a bias starts as in PyTorch, which depends on the weight's
  // fan-in; with every other initialisation it starts at zero.
  ValueId bias(const Layer& layer, const std::string& name, int64_t size, int64_t fan_in);
  // Brings the features of a flattened image, which are H,W,C here, into PyTorch's order C,H,W.
  // Layers that treat all features alike leave them as they are, and a layer with a parameter for
  // each feature permutes its parameters in files instead. Only operations that depend on which
  // feature is which need this.
  ValueId in_order(ValueId x);
  // Makes a parameter for each feature of the last dimension; for a flattened image it is stored in
  // files in PyTorch's order.
  ValueId feature_parameter(const std::string& name, int64_t size, double initial,
                            bool trainable = true);
  // Adds the inputs that random masks depend on.
  void read_step();
  // A constant, which layers share.
  ValueId zeros(int64_t size);
  // [.., heads * width] as [.., heads, width]; throws unless the heads divide the features.
  ValueId by_head(ValueId x, int64_t heads, const char* what);
  // The place of the token that extends a text, an input.
  ValueId place();
  [[noreturn]] void fail(const std::string& message) const;

  const Model& model_;
  const NetworkOptions& options_;
  Network net_;
  graph::Build build_;
  Dims image_;  // [H, W, C] of the flattened image whose order the features still have; empty: none

 private:
  std::set<std::string> names_;
  std::map<int64_t, ValueId> zeros_ = {};  // by size
};

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_NETWORK_PARTS_H_
