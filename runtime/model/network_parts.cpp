// Adds inputs, parameters and constants to the graph of a network, and names and initialises them.
#include "runtime/model/network_parts.h"

#include <utility>

#include "runtime/error.h"
#include "runtime/model/turn_tables.h"

namespace runtime::model {

using graph::Value;
using graph::ValueId;
using graph::ValueKind;

ValueId NetworkParts::input(const std::string& name, Dims shape, rt_dtype dtype) {
  return net_.graph.add_value(name, ValueKind::kInput, std::move(shape), dtype);
}

ValueId NetworkParts::named_input(const std::string& name, Dims shape, bool integers) {
  shape.insert(shape.begin(), options_.batch);
  const rt_dtype dtype = integers ? RT_INT32 : options_.dtype;
  for (const NamedInput& known : net_.inputs) {
    if (known.name != name) continue;
    const Value& value = net_.graph.value(known.value);
    if (value.dims == shape && value.dtype == dtype) return known.value;
    const auto text = [](const Dims& dims, rt_dtype type) {
      return graph::to_string(dims) + (type == RT_INT32 ? " of integers" : " of numbers");
    };
    fail("reads the input \"" + name + "\" as " + text(shape, dtype) + ", a layer before it as " +
         text(value.dims, value.dtype) + "; give both the same shape and type");
  }
  net_.inputs.push_back({name, input("inputs." + name, std::move(shape), dtype)});
  return net_.inputs.back().value;
}

ValueId NetworkParts::parameter(const std::string& name, const Dims& shape, Init init,
                                bool trainable) {
  if (!names_.insert(name).second) {
    throw ConfigurationError("two layers make a parameter named '" + name +
                             "'; give the layers different names");
  }
  Parameter p;
  p.name = name;
  p.value = net_.graph.add_value(name, trainable ? ValueKind::kParameter : ValueKind::kState, shape,
                                 options_.dtype);
  p.view = p.file_dims = shape;
  for (size_t i = 0; i < shape.size(); ++i) p.permutation.push_back(static_cast<int>(i));
  p.init = std::move(init);
  p.trainable = trainable;
  net_.parameters.push_back(std::move(p));
  return net_.parameters.back().value;
}

ValueId NetworkParts::weight(const std::string& name, const Layer& layer, const Dims& shape,
                             int64_t fan_in, int64_t fan_out) {
  const ValueId v = parameter(name, shape, layer.init.value_or(model_.init));
  net_.parameters.back().fan_in = fan_in;
  net_.parameters.back().fan_out = fan_out;
  net_.parameters.back().l2 = layer.l2;
  return v;
}

ValueId NetworkParts::table(const Layer& layer, const std::string& name, int64_t rows,
                            int64_t features) {
  Layer with_init = layer;
  if (with_init.init.value_or(model_.init).is_default()) with_init.init = Init{"normal", 1};
  return weight(name + ".weight", with_init, {rows, features}, features, rows);
}

ValueId NetworkParts::bias(const Layer& layer, const std::string& name, int64_t size,
                           int64_t fan_in) {
  Init init = layer.init.value_or(model_.init);
  if (!init.is_default()) init = {"constant", 0};
  const ValueId v = parameter(name + ".bias", {size}, init);
  net_.parameters.back().fan_in = fan_in;
  return v;
}

ValueId NetworkParts::in_order(ValueId x) {
  if (image_.empty()) return x;
  const int64_t rows = dims(x)[0], pixels = image_[0] * image_[1], channels = image_[2];
  image_.clear();
  x = build_.transpose(net_.graph.reshape(x, {rows, pixels, channels}), {0, 2, 1});
  return net_.graph.reshape(x, {rows, channels * pixels});
}

ValueId NetworkParts::feature_parameter(const std::string& name, int64_t size, double initial,
                                        bool trainable) {
  const ValueId v = parameter(name, {size}, {"constant", initial}, trainable);
  if (!image_.empty()) {
    net_.parameters.back().view = image_;
    net_.parameters.back().permutation = {2, 0, 1};
  }
  return v;
}

void NetworkParts::read_step() {
  if (net_.step != graph::kNone) return;
  net_.step = input("step", {1}, RT_INT64);
  net_.sample_base = input("sample_base", {1}, RT_INT64);
}

ValueId NetworkParts::zeros(int64_t size) {
  const auto [known, is_new] = zeros_.try_emplace(size, graph::kNone);
  if (!is_new) return known->second;
  known->second = add_constant(net_.graph, "zeros." + std::to_string(size), {size}, options_.dtype,
                               [size] { return std::vector<double>(static_cast<size_t>(size)); });
  return known->second;
}

ValueId NetworkParts::by_head(ValueId x, int64_t heads, const char* what) {
  Dims split = dims(x);
  if (split.back() % heads != 0) {
    fail(std::string(what) + " of " + std::to_string(heads) + " heads on " +
         graph::to_string(split) + ": expected a multiple of the heads as the last dimension");
  }
  split.back() /= heads;
  split.insert(split.end() - 1, heads);
  return net_.graph.reshape(x, split);
}

ValueId NetworkParts::place() {
  ValueId& position = net_.cache.position;
  if (position == graph::kNone) position = input("position", {1, 1}, RT_INT32);
  return position;
}

void NetworkParts::fail(const std::string& message) const {
  throw ConfigurationError("layer '" + build_.layer + "': " + message);
}

}  // namespace runtime::model
