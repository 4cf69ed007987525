#include "plugins/check/models.h"

#include <algorithm>
#include <map>

#include "rt/operations.h"
#include "rt/sdk/definitions.h"

namespace plugins::check {

namespace {

using Names = std::vector<std::string>;
using rt::sdk::Definition;

constexpr const char* kGroup = "kernels";

const Row* find(const std::vector<Row>& rows, const std::string& operation) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
    return row.group == kGroup && row.name == operation;
  });
  return found == rows.end() ? nullptr : &*found;
}

bool has(const std::vector<Row>& rows, const std::string& operation) {
  const Row* const row = find(rows, operation);
  return row != nullptr && row->outcome == Outcome::kPassed;
}

// In the order of plugins/operations.md, "The base set".
const Names kSlowWhenComposed = {RT_OP_CONV2D,
                                 RT_OP_CONV2D_BACKWARD_WEIGHTS,
                                 RT_OP_CONV2D_BACKWARD_DATA,
                                 RT_OP_ATTENTION,
                                 RT_OP_ATTENTION_BACKWARD,
                                 RT_OP_MAX_POOL2D,
                                 RT_OP_MAX_POOL2D_BACKWARD,
                                 RT_OP_AVG_POOL2D,
                                 RT_OP_AVG_POOL2D_BACKWARD,
                                 RT_OP_BATCH_NORM,
                                 RT_OP_BATCH_NORM_BACKWARD,
                                 RT_OP_LAYER_NORM,
                                 RT_OP_LAYER_NORM_BACKWARD,
                                 RT_OP_DROPOUT};

}  // namespace

const std::vector<ModelOperations>& model_operations() {
  static const std::vector<ModelOperations> table = {
      {"mlp",
       {RT_OP_ACTIVATION, RT_OP_ACTIVATION_BACKWARD, RT_OP_ADD, RT_OP_CROSS_ENTROPY,
        RT_OP_CROSS_ENTROPY_BACKWARD, RT_OP_MATMUL, RT_OP_REDUCE, RT_OP_SGD}},
      {"lenet",
       {RT_OP_ACTIVATION, RT_OP_ACTIVATION_BACKWARD, RT_OP_ADD, RT_OP_AVG_POOL2D,
        RT_OP_AVG_POOL2D_BACKWARD, RT_OP_CONV2D, RT_OP_CONV2D_BACKWARD_DATA,
        RT_OP_CONV2D_BACKWARD_WEIGHTS, RT_OP_CROSS_ENTROPY, RT_OP_CROSS_ENTROPY_BACKWARD,
        RT_OP_MATMUL, RT_OP_REDUCE, RT_OP_SGD}},
      {"alexnet_small",
       {RT_OP_ACTIVATION, RT_OP_ACTIVATION_BACKWARD, RT_OP_ADD, RT_OP_CONV2D,
        RT_OP_CONV2D_BACKWARD_DATA, RT_OP_CONV2D_BACKWARD_WEIGHTS, RT_OP_CROSS_ENTROPY,
        RT_OP_CROSS_ENTROPY_BACKWARD, RT_OP_DROPOUT, RT_OP_MATMUL, RT_OP_MAX_POOL2D,
        RT_OP_MAX_POOL2D_BACKWARD, RT_OP_REDUCE, RT_OP_SGD}},
      {"vgg11_bn",
       {RT_OP_ACTIVATION, RT_OP_ACTIVATION_BACKWARD, RT_OP_ADD, RT_OP_BATCH_NORM,
        RT_OP_BATCH_NORM_BACKWARD, RT_OP_CONV2D, RT_OP_CONV2D_BACKWARD_DATA,
        RT_OP_CONV2D_BACKWARD_WEIGHTS, RT_OP_CROSS_ENTROPY, RT_OP_CROSS_ENTROPY_BACKWARD,
        RT_OP_DROPOUT, RT_OP_MATMUL, RT_OP_MAX_POOL2D, RT_OP_MAX_POOL2D_BACKWARD, RT_OP_REDUCE,
        RT_OP_SGD}},
      {"resnet18_cifar",
       {RT_OP_ACTIVATION, RT_OP_ACTIVATION_BACKWARD, RT_OP_ADD, RT_OP_BATCH_NORM,
        RT_OP_BATCH_NORM_BACKWARD, RT_OP_CONV2D, RT_OP_CONV2D_BACKWARD_DATA,
        RT_OP_CONV2D_BACKWARD_WEIGHTS, RT_OP_CROSS_ENTROPY, RT_OP_CROSS_ENTROPY_BACKWARD,
        RT_OP_GLOBAL_AVG_POOL, RT_OP_GLOBAL_AVG_POOL_BACKWARD, RT_OP_MATMUL, RT_OP_REDUCE,
        RT_OP_SGD}},
      {"gpt_char_small",
       {RT_OP_ACTIVATION, RT_OP_ACTIVATION_BACKWARD, RT_OP_ADD, RT_OP_ATTENTION,
        RT_OP_ATTENTION_BACKWARD, RT_OP_CAST, RT_OP_CROSS_ENTROPY, RT_OP_CROSS_ENTROPY_BACKWARD,
        RT_OP_EMBEDDING, RT_OP_EMBEDDING_BACKWARD, RT_OP_LAYER_NORM, RT_OP_LAYER_NORM_BACKWARD,
        RT_OP_MATMUL, RT_OP_REDUCE, RT_OP_SGD}},
      {"vit_small",
       {RT_OP_ACTIVATION, RT_OP_ACTIVATION_BACKWARD, RT_OP_ADD, RT_OP_ATTENTION,
        RT_OP_ATTENTION_BACKWARD, RT_OP_CONV2D, RT_OP_CONV2D_BACKWARD_WEIGHTS, RT_OP_CROSS_ENTROPY,
        RT_OP_CROSS_ENTROPY_BACKWARD, RT_OP_GLOBAL_AVG_POOL, RT_OP_GLOBAL_AVG_POOL_BACKWARD,
        RT_OP_LAYER_NORM, RT_OP_LAYER_NORM_BACKWARD, RT_OP_MATMUL, RT_OP_REDUCE, RT_OP_SGD}},
  };
  return table;
}

std::vector<ModelState> model_states(const std::vector<Row>& rows) {
  const bool base = has(rows, kBaseSet);
  std::vector<ModelState> states;
  for (const ModelOperations& model : model_operations()) {
    ModelState state{model.preset, {}, {}, {}, true};
    for (const std::string& operation : model.operations) {
      const Row* const row = find(rows, operation);
      const bool failed = row != nullptr && row->outcome == Outcome::kFailed;
      const bool own = has(rows, operation);
      (own ? state.own : failed ? state.faulty : state.others).push_back(operation);
      state.trains &= own || (!failed && base);
    }
    states.push_back(std::move(state));
  }
  return states;
}

std::vector<std::string> next_operations(const std::vector<Row>& rows) {
  std::map<std::string, int> uses;
  for (const ModelOperations& model : model_operations())
    for (const std::string& operation : model.operations)
      if (!has(rows, operation)) ++uses[operation];
  std::vector<std::string> names;
  for (const auto& [name, count] : uses) names.push_back(name);
  const auto rank = [&](const std::string& name) -> std::ptrdiff_t {
    const Row* const row = find(rows, name);
    if (row != nullptr && row->outcome == Outcome::kFailed) return -2;
    if (rt::sdk::has_trait(name, Definition::kMandatory | Definition::kBase)) return -1;
    const auto slow = std::find(kSlowWhenComposed.begin(), kSlowWhenComposed.end(), name);
    return slow - kSlowWhenComposed.begin();
  };
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return uses[a] != uses[b] ? uses[a] > uses[b] : a < b;
  });
  return names;
}

}  // namespace plugins::check
