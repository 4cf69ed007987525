// Adds the nodes of each layer to the forward graph, and names and initialises its parameters.
#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

#include "runtime/config/choices.h"
#include "runtime/error.h"
#include "runtime/model/attention.h"
#include "runtime/model/network.h"
#include "runtime/model/network_parts.h"
#include "runtime/model/open_layer.h"
#include "runtime/model/turn_tables.h"

namespace runtime::model {

namespace {

using graph::Dims;
using graph::ValueId;

// Computes the padding that makes the output ceil(input / stride). If the total is odd, the end
// gets one element more than the beginning.
void same_padding(int64_t input, int64_t kernel, int64_t stride, int64_t dilation, int64_t* before,
                  int64_t* after) {
  const int64_t output = (input + stride - 1) / stride;
  const int64_t total =
      std::max<int64_t>(0, (output - 1) * stride + dilation * (kernel - 1) + 1 - input);
  *before = total / 2;
  *after = total - total / 2;
}

class NetworkBuilder : NetworkParts {
 public:
  NetworkBuilder(const Model& model, const NetworkOptions& options)
      : NetworkParts(model, options) {}

  Network run() {
    add_input();
    if (model_.layers.empty())
      throw ConfigurationError("the model has no layers; give [model] layers or a preset");
    ValueId x = net_.features;
    sequence(model_.layers, "", &x);
    net_.output = in_order(x);
    return std::move(net_);
  }

 private:
  void add_input() {
    Dims shape = model_.input;
    if (shape.size() == 3) shape = {shape[1], shape[2], shape[0]};
    if (extends()) shape = {1};
    shape.insert(shape.begin(), options_.batch);
    net_.features = input("features", shape, options_.dtype);
  }

  // `unnamed` precedes the names of layers that have no name of their own.
  void sequence(const std::vector<Layer>& layers, const std::string& prefix, ValueId* x,
                const std::string& unnamed = "") {
    for (const Layer& layer : layers) {
      const std::string base =
          layer.name.empty() ? unnamed + default_name(layer, prefix + unnamed) : layer.name;
      for (int64_t i = 0; i < layer.repeat; ++i) {
        const std::string name = prefix + base + (layer.repeat > 1 ? "." + std::to_string(i) : "");
        prefix_ = prefix;
        *x = apply(layer, name, *x);
      }
    }
  }

  template <class Kind>
  static std::string short_name(const Kind&) {
    return Kind::kShortName;
  }
  static std::string short_name(const Open& open) {
    return open.operation->name.substr(open.operation->name.find('.') + 1);
  }

  // Numbers are counted for each prefix, so that no two layers have the same name.
  std::string default_name(const Layer& layer, const std::string& prefix) {
    const std::string base =
        std::visit([](const auto& kind) { return short_name(kind); }, layer.kind);
    return base + std::to_string(++counts_[prefix + base]);
  }

  template <class Kind>
  static bool takes_integers(const Kind&) {
    return std::is_same_v<Kind, Embedding> || std::is_same_v<Kind, Input> ||
           std::is_same_v<Kind, Flatten> || std::is_same_v<Kind, Block>;
  }

  // The values of an input of integers are no numbers to compute with.
  void need_numbers(ValueId x) const {
    if (net_.graph.value(x).dtype == options_.dtype) return;
    fail("computes with numbers, and what is before it has integers, " + graph::to_string(dims(x)) +
         "; look them up in an embedding, or read them with values = \"numbers\"");
  }

  ValueId apply(const Layer& layer, const std::string& name, ValueId x) {
    build_.layer = name;
    const int64_t outer = stage_;
    if (layer.stage >= 0) stage_ = layer.stage;
    if (stage_ >= 0) net_.stages[name] = static_cast<int>(stage_);
    if (layer.shard != "auto") net_.shards[name] = layer.shard;
    if (!std::visit([](const auto& kind) { return takes_integers(kind); }, layer.kind))
      need_numbers(x);
    x = std::visit([&](const auto& kind) { return emit(kind, layer, name, x); }, layer.kind);
    stage_ = outer;
    if (layer.activation != 0) {
      build_.layer = name;
      x = build_.activation(x, layer.activation);
    }
    return x;
  }

  // Returns the dims of the input of a layer, which must be so many; `needs` says what it needs.
  Dims expect(size_t rank, const std::string& needs, ValueId x,
              const std::string& remedy = "") const {
    if (dims(x).size() != rank)
      fail(needs + ", its input is " + graph::to_string(dims(x)) + remedy);
    return dims(x);
  }

  // ---- layers

  ValueId emit(const Conv2d& conv, const Layer& layer, const std::string& name, ValueId x) {
    const Dims in = expect(4, "conv2d needs an image [N, H, W, C]", x);
    graph::Convolution c = conv.convolution;
    if (c.groups < 1 || in[3] % c.groups != 0 || conv.channels % c.groups != 0) {
      fail("conv2d from " + std::to_string(in[3]) + " to " + std::to_string(conv.channels) +
           " channels: both must be multiples of groups = " + std::to_string(c.groups));
    }
    if (conv.same_padding) {
      same_padding(in[1], conv.kernel_h, c.stride_h, c.dilation_h, &c.padding.top,
                   &c.padding.bottom);
      same_padding(in[2], conv.kernel_w, c.stride_w, c.dilation_w, &c.padding.left,
                   &c.padding.right);
    }
    const int64_t window = conv.kernel_h * conv.kernel_w, in_channels = in[3] / c.groups;
    const ValueId w =
        weight(name + ".weight", layer, {conv.channels, conv.kernel_h, conv.kernel_w, in_channels},
               in_channels * window, conv.channels * window);
    Parameter& p = net_.parameters.back();
    p.permutation = {0, 3, 1, 2};
    p.file_dims = {conv.channels, in_channels, conv.kernel_h, conv.kernel_w};
    ValueId y = build_.conv2d(x, w, c);
    if (conv.bias) y = build_.add(y, bias(layer, name, conv.channels, in_channels * window));
    return y;
  }

  ValueId emit(const Linear& linear, const Layer& layer, const std::string& name, ValueId x) {
    const Dims in = dims(x);
    if (in.size() == 4)
      fail("linear needs vectors, its input is the image " + graph::to_string(in) +
           "; put a flatten or global_avg_pool before it");
    if (!linear.tie.empty()) x = in_order(x);
    const ValueId w = linear.tie.empty() ? linear_weight(linear, layer, name, in.back())
                                         : tied_weight(linear, in.back());
    image_.clear();
    ValueId y = build_.matmul(x, w, false, true);
    if (linear.bias) y = build_.add(y, bias(layer, name, linear.features, in.back()));
    return y;
  }

  ValueId linear_weight(const Linear& linear, const Layer& layer, const std::string& name,
                        int64_t features) {
    const ValueId w =
        weight(name + ".weight", layer, {linear.features, features}, features, linear.features);
    Parameter& p = net_.parameters.back();
    if (!image_.empty()) {
      // The columns of the weight are in the order of the flattened image's elements, which is
      // H,W,C here and C,H,W in files.
      p.view = {linear.features, image_[0], image_[1], image_[2]};
      p.permutation = {0, 3, 1, 2};
    }
    if (linear.file_in_out) {
      std::rotate(p.permutation.begin(), p.permutation.begin() + 1, p.permutation.end());
      p.file_dims = {features, linear.features};
    }
    return w;
  }

  ValueId tied_weight(const Linear& linear, int64_t features) const {
    const Dims needed = {linear.features, features};
    for (const Parameter& p : net_.parameters) {
      if (p.name != linear.tie + ".weight") continue;
      if (dims(p.value) == needed) return p.value;
      fail("tie = \"" + linear.tie + "\": its table is " + graph::to_string(dims(p.value)) +
           ", a linear layer from " + std::to_string(features) + " to " +
           std::to_string(linear.features) + " features needs " + graph::to_string(needed));
    }
    fail("tie = \"" + linear.tie +
         "\": no layer before it has that name and a weight; give the full name of an embedding, "
         "with those of the blocks around it");
  }

  ValueId emit(const Pool2d& pool, const Layer&, const std::string&, ValueId x) {
    return pool.max ? build_.max_pool2d(x, pool.pooling) : build_.avg_pool2d(x, pool.pooling);
  }

  ValueId emit(const AdaptiveAvgPool2d& pool, const Layer&, const std::string&, ValueId x) {
    const Dims in = dims(x);
    if (in.size() != 4 || in[1] % pool.height != 0 || in[2] % pool.width != 0) {
      fail("adaptive_avg_pool2d to " + std::to_string(pool.height) + "x" +
           std::to_string(pool.width) +
           " needs an image [N, H, W, C] of a multiple of that size, " + "its input is " +
           graph::to_string(in) + "; choose another size or model.input");
    }
    const int64_t h = in[1] / pool.height, w = in[2] / pool.width;
    return h == 1 && w == 1 ? x : build_.avg_pool2d(x, {h, w, h, w, {}, true});
  }

  // The mean of the tokens that are no padding. Their shares are computed in the type of the model
  // also where activations have 16 bits, which cannot hold every number of tokens.
  ValueId mean_of_documents(const std::string& documents, ValueId x) {
    const Dims in = expect(3, "global_avg_pool with documents needs tokens [N, T, C]", x);
    const ValueId given = named_input(documents, {in[1]}, true);
    ValueId real = net_.graph.reshape(build_.cast(given, options_.dtype), {in[0], 1, in[1]});
    const auto relu_of = [&](double factor, double offset) {
      return build_.activation(build_.scale(real, factor, offset), RT_ACTIVATION_RELU);
    };
    real = relu_of(-1, 0);  // above 0 for padding
    real = relu_of(-1, 1);  // 0 for padding, else 1
    const ValueId count = build_.matmul(real, real, false, true);
    const ValueId share = build_.node1(RT_OP_DIVIDE, {real, count}, Dims(dims(real)));
    return net_.graph.reshape(build_.matmul(share, x, false, false), {in[0], in[2]});
  }

  ValueId emit(const GlobalAvgPool& pool, const Layer&, const std::string&, ValueId x) {
    if (!pool.documents.empty()) return mean_of_documents(pool.documents, x);
    const Dims in = dims(x);
    if (in.size() == 3) x = net_.graph.reshape(x, {in[0], in[1], 1, in[2]});
    return build_.global_avg_pool(x);
  }

  ValueId emit(const Input& named, const Layer&, const std::string&, ValueId) {
    Dims shape = named.shape.empty() ? model_.input : named.shape;
    if (shape.size() == 3) shape = {shape[1], shape[2], shape[0]};
    image_.clear();
    return named_input(named.input, std::move(shape), named.integers);
  }

  ValueId emit(const FirstToken&, const Layer&, const std::string&, ValueId x) {
    const Dims in = expect(3, "first_token needs tokens [N, T, C]", x);
    x = build_.node1(RT_OP_SLICE, {x}, {in[0], 1, in[2]},
                     {{RT_ATTR_AXIS, int64_t{1}}, {RT_ATTR_START, int64_t{0}}});
    return net_.graph.reshape(x, {in[0], in[2]});
  }

  ValueId emit(const ImageToTokens&, const Layer&, const std::string&, ValueId x) {
    const Dims in = expect(4, "image_to_tokens needs an image [N, H, W, C]", x);
    return net_.graph.reshape(x, {in[0], in[1] * in[2], in[3]});
  }

  ValueId emit(const Flatten&, const Layer&, const std::string&, ValueId x) {
    const Dims in = dims(x);
    if (in.size() == 4 && in[1] * in[2] > 1 && in[3] > 1) image_ = {in[1], in[2], in[3]};
    return net_.graph.reshape(x, {in[0], graph::element_count(in) / in[0]});
  }

  ValueId emit(const Activation& a, const Layer&, const std::string&, ValueId x) {
    return build_.activation(x, a.function);
  }

  ValueId emit(const Softmax&, const Layer&, const std::string&, ValueId x) {
    return build_.softmax(x);
  }

  ValueId emit(const Dropout& d, const Layer&, const std::string&, ValueId x) {
    const int64_t stream =
        // Counted for evaluation too, so that a layer's stream of random numbers is always the
        // same.
        dropouts_++;
    if (!options_.training || d.probability == 0) return x;
    read_step();
    return build_.dropout(x, net_.step, net_.sample_base, d.probability, options_.seed, stream);
  }

  ValueId emit(const BatchNorm& bn, const Layer&, const std::string& name, ValueId x) {
    const int64_t c = dims(x).back();
    const ValueId gamma = feature_parameter(name + ".weight", c, 1),
                  beta = feature_parameter(name + ".bias", c, 0);
    const ValueId mean = feature_parameter(name + ".running_mean", c, 0, false);
    const ValueId var = feature_parameter(name + ".running_var", c, 1, false);
    if (!options_.training)
      return build_.batch_norm_inference(x, gamma, beta, mean, var, bn.epsilon);
    if (!options_.split_batch_norm)
      return build_.batch_norm(x, gamma, beta, mean, var, bn.epsilon, bn.momentum);
    if (net_.real == graph::kNone) net_.real = input("real", {options_.batch}, options_.dtype);
    return build_.batch_norm_in_parts(x, net_.real, gamma, beta, mean, var, bn.epsilon,
                                      bn.momentum);
  }

  ValueId emit(const LayerNorm& ln, const Layer&, const std::string& name, ValueId x) {
    const int64_t d = dims(x).back();
    const ValueId gamma = feature_parameter(name + ".weight", d, 1);
    const ValueId beta = ln.bias ? feature_parameter(name + ".bias", d, 0) : zeros(d);
    return build_.layer_norm(x, gamma, beta, ln.epsilon);
  }

  ValueId emit(const RmsNorm& norm, const Layer&, const std::string& name, ValueId x) {
    const Dims whole = dims(x);
    if (norm.heads > 1) x = by_head(in_order(x), norm.heads, "rms_norm");
    const ValueId gamma = feature_parameter(name + ".weight", dims(x).back(), 1);
    const ValueId y = build_.rms_norm(x, gamma, norm.epsilon);
    return norm.heads > 1 ? net_.graph.reshape(y, whole) : y;
  }

  ValueId emit(const Rotary& rotary, const Layer&, const std::string&, ValueId x) {
    const Dims in = dims(x);
    const int64_t width = in.back() / rotary.heads;
    const int64_t columns = rotary.rotations.columns != 0 ? rotary.rotations.columns : width;
    if (in.size() != 3 || in[2] % rotary.heads != 0 || columns > width || columns % 2 != 0) {
      fail("rotary turns " + std::to_string(columns) + " features of each of " +
           std::to_string(rotary.heads) + " heads, its input is " + graph::to_string(in) +
           "; expected tokens [N, T, C] with heads of at least so many features, an even number");
    }
    const int64_t places = extends() ? model_.input[0] : in[1];
    ValueId turns = turns_.find(net_.graph, rotary.rotations, columns, places, options_.dtype);
    if (extends()) turns = build_.embedding(place(), turns);
    return build_.rotary(x, turns, rotary.heads);
  }

  ValueId emit(const Embedding& e, const Layer& layer, const std::string& name, ValueId x) {
    // Data sets give token ids as float32, which is exact up to 2^24.
    x = build_.cast(in_order(x), RT_INT32);
    return build_.embedding(x, table(layer, name, e.vocabulary, e.features));
  }

  Dims expect_tokens(const std::string& layer, ValueId x) const {
    return expect(3, layer + " needs tokens [N, T, C]", x,
                  "; put an embedding or image_to_tokens before it");
  }

  // x plus the row of `table` [places, C] for the place of each token, or for the place that a
  // named input gives.
  ValueId add_rows_of_places(ValueId x, ValueId table, const std::string& input) {
    const int64_t tokens = dims(x)[1], features = dims(x)[2];
    if (extends()) {
      table = build_.embedding(place(), table);
    } else if (!input.empty() && options_.cache == CacheUse::kNone) {
      table = build_.embedding(named_input(input, {tokens}, true), table);
    } else if (dims(table)[0] > tokens) {
      table = build_.node1(RT_OP_SLICE, {table}, {tokens, features},
                           {{RT_ATTR_AXIS, int64_t{0}}, {RT_ATTR_START, int64_t{0}}});
    }
    return build_.add(x, table);
  }

  ValueId emit(const SinusoidalPosition& s, const Layer&, const std::string& name, ValueId x) {
    const Dims in = expect_tokens("sinusoidal_position", x);
    const int64_t places = extends() ? model_.input[0] : in[1], features = in[2];
    const auto numbers = [=, base = s.base] { return sinusoids(base, features, places); };
    const ValueId table =
        add_constant(net_.graph, name + ".places", {places, features}, options_.dtype, numbers);
    return add_rows_of_places(x, table, s.positions);
  }

  ValueId emit(const PositionEmbedding& e, const Layer& layer, const std::string& name, ValueId x) {
    const Dims in = expect_tokens("position_embedding", x);
    const int64_t rows = e.length != 0 ? e.length : extends() ? model_.input[0] : in[1];
    if (rows < in[1])
      fail("position_embedding of length " + std::to_string(rows) + " for " +
           std::to_string(in[1]) + " tokens; raise the length or shorten model.input");
    return add_rows_of_places(x, table(layer, name, rows, in[2]), e.positions);
  }

  // What an attention with branches reads.
  AttentionSource branches_of(const Attention& a, const graph::DotProductAttention& o,
                              const std::string& name, ValueId x) {
    const std::string layer = build_.layer;
    const auto branch = [&](const std::vector<Layer>& layers, const char* unnamed) {
      ValueId y = x;
      sequence(layers, inside(a.prefix, name), &y, unnamed);
      return Columns{y, 0, dims(y).back()};
    };
    const Columns queries = branch(a.query, "query."), keys = branch(a.key, "key."),
                  values = branch(a.value, "value.");
    build_.layer = layer;
    return {queries, keys, values, o.heads, o.key_heads, o.window, o.scale};
  }

  ValueId emit(const Attention& a, const Layer&, const std::string& name, ValueId x) {
    graph::DotProductAttention o = a.options;
    if (o.key_heads == 0) o.key_heads = o.heads;
    const AttentionSource source =
        a.is_packed() ? side_by_side(build_, x, o) : branches_of(a, o, name, x);
    if (extends()) return extend_attention(build_, net_.cache, source, model_.input[0]);
    if (options_.cache == CacheUse::kFill) fill_cache(build_, net_.cache, source);
    // A text that is continued is one document.
    const bool divided = !a.documents.empty() && options_.cache == CacheUse::kNone;
    // With dropout, an evaluation has the general operation too, so that it splits weights over
    // ranks as training does.
    const bool plain =
        o.key_heads == o.heads && o.window == 0 && o.scale == 0 && o.probability == 0;
    if (a.is_packed() && plain && !divided) return build_.attention(x, o.heads, o.causal);
    // Counted for evaluation too, as in a dropout layer.
    if (o.probability > 0) o.stream = dropouts_++;
    if (!options_.training) o.probability = 0;
    const ValueId queries = value_of(build_, source.queries), keys = value_of(build_, source.keys);
    if (o.probability > 0 || divided) {
      read_step();
      o.seed = options_.seed, o.step = net_.step, o.base = net_.sample_base;
    }
    if (divided) o.documents = named_input(a.documents, {dims(queries)[1]}, true);
    return build_.dot_product_attention(queries, keys, value_of(build_, source.values), o);
  }

  // A matrix begins as the weight [outputs, inputs] of a linear layer, a vector as a row of one.
  ValueId open_parameter(const OpenLayer::Parameter& p, const Layer& layer,
                         const std::string& name) {
    if (p.constant) return parameter(name, p.dims, {"constant", p.value});
    const int64_t outputs = p.dims.size() > 1 ? p.dims[0] : 1;
    return weight(name, layer, p.dims, graph::element_count(p.dims) / outputs, outputs);
  }

  // A layer that is a formula sees the features of a flattened image in PyTorch's order.
  ValueId emit(const Open& open, const Layer& layer, const std::string& name, ValueId x) {
    x = in_order(x);
    build_.layer = name;
    const OpenLayer made(*open.operation, open.attributes, dims(x), name);
    graph::add_operation(net_.graph, made.operation());
    std::vector<ValueId> inputs = {x};
    for (const OpenLayer::Parameter& p : made.parameters())
      inputs.push_back(open_parameter(p, layer, name + "." + p.name));
    const ValueId y = graph::add_open_node(build_, open.operation->name, inputs, made.attributes());
    made.check_output(dims(y));
    return y;
  }

  // Returns the prefix of the names inside a layer that contains other layers.
  std::string inside(bool prefix, const std::string& name) const {
    return prefix ? name + "." : prefix_;
  }

  void add_block(const std::string& name) {
    if (net_.blocks.empty() || !name.starts_with(net_.blocks.back() + "."))
      net_.blocks.push_back(name);
  }

  ValueId emit(const Block& block, const Layer& layer, const std::string& name, ValueId x) {
    if (block.prefix && layer.repeat > 1) add_block(name);
    sequence(block.layers, inside(block.prefix, name), &x);
    return x;
  }

  // The results of two branches, with their features in the same order.
  struct Branches {
    ValueId first, second;
  };
  // A list of layers, and what goes before the names of those without a name of their own.
  struct Branch {
    const std::vector<Layer>& layers;
    const char* unnamed;
  };

  Branches branches(const Branch& first, const Branch& second, const std::string& prefix,
                    ValueId x) {
    const std::string layer = build_.layer;
    const Dims image = image_;
    Branches y{x, x};
    sequence(first.layers, prefix, &y.first, first.unnamed);
    const Dims first_image = std::exchange(image_, image);
    sequence(second.layers, prefix, &y.second, second.unnamed);
    build_.layer = layer;
    need_numbers(y.first);
    need_numbers(y.second);
    if (image_ != first_image) {
      y.second = in_order(y.second);
      image_ = first_image;
      y.first = in_order(y.first);
    }
    return y;
  }

  ValueId emit(const Residual& residual, const Layer&, const std::string& name, ValueId x) {
    if (residual.prefix) add_block(name);
    const Branches y = branches({residual.layers, ""}, {residual.shortcut, "shortcut."},
                                inside(residual.prefix, name), x);
    if (dims(y.first) != dims(y.second)) {
      fail("residual: layers give " + graph::to_string(dims(y.first)) + ", the shortcut " +
           graph::to_string(dims(y.second)) +
           "; give the shortcut a 1x1 conv2d with the same stride and channels");
    }
    return build_.add(y.first, y.second);
  }

  ValueId emit(const Join& join, const Layer&, const std::string& name, ValueId x) {
    const Branches y =
        branches({join.layers, ""}, {join.other, "other."}, inside(join.prefix, name), x);
    Dims all = dims(y.first);
    Dims other = dims(y.second);
    if (join.by == JoinBy::kConcat && all.size() == other.size()) other.back() = all.back();
    if (all != other) {
      fail("join: layers give " + graph::to_string(dims(y.first)) + ", the other branch " +
           graph::to_string(dims(y.second)) + "; " +
           (join.by == JoinBy::kConcat ? "all dimensions but the last have to be equal"
                                       : "they have to be equal"));
    }
    if (join.by == JoinBy::kAdd) return build_.add(y.first, y.second);
    if (join.by == JoinBy::kMultiply) return build_.multiply(y.first, y.second);
    const Dims image = image_;
    const ValueId first = in_order(y.first);
    image_ = image;
    const ValueId second = in_order(y.second);
    all.back() += dims(second).back();
    return build_.node1(RT_OP_CONCAT, {first, second}, all,
                        {{RT_ATTR_AXIS, static_cast<int64_t>(all.size()) - 1}});
  }

  ValueId emit(const Gated& gated, const Layer&, const std::string& name, ValueId x) {
    const Branches y =
        branches({gated.gate, "gate."}, {gated.up, "up."}, inside(gated.prefix, name), x);
    return build_.gated_activation(y.first, y.second, gated.function);
  }

  ValueId emit(const AuxiliaryHead& head, const Layer&, const std::string& name, ValueId x) {
    const Dims image = image_;
    const std::string layer = build_.layer;
    ValueId y = x;
    sequence(head.layers, inside(head.prefix, name), &y);
    need_numbers(y);
    y = in_order(y);
    image_ = image;
    build_.layer = layer;
    if (options_.cache == CacheUse::kNone) net_.heads.push_back(compared(head, name, y));
    return x;
  }

  // Outside training nothing needs the target, and the samples may lack it. The network is the same
  // nevertheless, so that ranks split weights as in training.
  HeadOutput compared(const AuxiliaryHead& head, const std::string& name, ValueId y) {
    const bool classes = config::loss_of(head.loss, true).of_classes();
    Dims rows = dims(y);
    if (!classes && rows.size() != 2)
      fail("auxiliary_head: the loss " + head.loss + " needs vectors, the branch gives " +
           graph::to_string(rows) + "; put a flatten or global_avg_pool into it");
    if (classes) rows.pop_back();
    Dims of_sample(rows.begin() + 1, rows.end());
    if (of_sample.empty()) of_sample = {1};
    ValueId target = graph::kNone;
    if (options_.training) {
      target = net_.graph.reshape(named_input(head.target, std::move(of_sample), classes), rows);
    } else {
      target = input(name + ".target", rows, classes ? RT_INT32 : options_.dtype);
    }
    return {name, y, target, head.loss, head.loss_weight};
  }

  std::map<std::string, int> counts_;  // layers without a name, by prefix and type
  int64_t stage_ = -1;                 // of the enclosing layer; -1: any stage
  std::string prefix_;                 // of the list whose layer is being added
  int64_t dropouts_ = 0;
  TurnTables turns_;
};

}  // namespace

Network build_network(const Model& model, const NetworkOptions& options) {
  return NetworkBuilder(model, options).run();
}

}  // namespace runtime::model
