// Walks the forward graph, cuts layers by columns and rows, and makes values whole where nothing
// else fits.
#include "runtime/parallel/shard.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/error.h"
#include "runtime/graph/build.h"
#include "runtime/graph/operation_set.h"
#include "runtime/graph/rewriter.h"
#include "runtime/parallel/lookahead.h"

namespace runtime::parallel {

namespace {

using graph::Dims;
using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::SplitRule;
using graph::ValueId;
using graph::ValueKind;

void set_attribute(Node& node, const char* name, int64_t value) {
  std::erase_if(node.attributes, [&](const graph::Attribute& a) { return a.name == name; });
  node.attributes.push_back({name, value});
}

class Shard {
 public:
  Shard(Graph& graph, const std::vector<ValueId>& parameters, const ShardOptions& options)
      : graph_(graph),
        options_(options),
        parameters_(parameters.begin(), parameters.end()),
        before_(std::move(graph.nodes)),
        ahead_(graph, before_, parameters_, options.hints, options.ranks),
        build_(graph),
        rewriter_(graph) {
    graph_.nodes.clear();
    for (ValueId v : parameters) result_.parameters.push_back({dims(v), {}});
  }

  Sharded run(const std::vector<ValueId>& parameters) {
    for (const Node& n : before_) {
      build_.layer = n.layer;
      build_.phase = n.phase;
      for (ValueId v : n.inputs) settle(v);
      place(n);
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (const Split* s = split(parameters[i])) result_.parameters[i].split = *s;
    }
    check();
    return std::move(result_);
  }

 private:
  const Dims& dims(ValueId v) const { return graph_.value(v).dims; }
  int last_axis(ValueId v) const { return static_cast<int>(dims(v).size()) - 1; }

  // ---- which values are split

  // How `v` is split; nullptr if every rank has the whole value.
  const Split* split(ValueId v) const {
    const auto it = splits_.find(v);
    return it == splits_.end() ? nullptr : &it->second;
  }

  void set_split(ValueId v, const Split& s) {
    graph_.resize(v, local_dims(dims(v), s));
    splits_[v] = s;
  }

  bool is_free(ValueId v) const { return parameters_.contains(v) && !fixed_.contains(v); }

  void set_parameter(ValueId v, const Split& s) {
    set_split(v, s);
    fixed_.insert(v);
  }

  Split own_slice(int axis, int64_t blocks, int64_t whole, int64_t unit) const {
    return slice_of({axis, blocks, whole, unit}, options_.rank, options_.ranks);
  }

  // A view of a split value becomes the matching slice, or else a view of the whole value.
  void settle(ValueId v) {
    const ValueId base = graph_.value(v).base;
    if (base == kNone || !settled_.insert(v).second) return;
    settle(base);
    const Split* s = split(base);
    if (s == nullptr) return;
    if (const auto seen = through_view(*s, whole_dims(dims(base), *s), dims(v))) {
      set_split(v, *seen);
    } else {
      const ValueId all = whole(base);
      graph_.value(v).base = all;
    }
  }

  // A new temporary with the type of `like`, named after it.
  ValueId temporary(ValueId like, const char* suffix, Dims dims) {
    return rewriter_.value(graph_.value(like).name + suffix, ValueKind::kTemporary, like,
                           std::move(dims));
  }

  // The whole value; gathered once if `v` is split.
  ValueId whole(ValueId v) {
    const Split* s = split(v);
    if (s == nullptr) return v;
    const auto [known, is_new] = whole_.try_emplace(v, kNone);
    if (is_new) {
      gather(v, known->second = temporary(v, ".whole", whole_dims(dims(v), *s)));
    }
    return known->second;
  }

  // All-gathers by padding each slice with zeros and adding up, which works for uneven slices and
  // any axis.
  void gather(ValueId part, ValueId all) {
    const Split s = *split(part);
    Dims local = dims(part);
    local[s.axis] = s.length;
    local.insert(local.begin() + s.axis, s.blocks);
    Dims padded = local;
    padded[s.axis + 1] = s.whole;
    const ValueId term =
        build_.node1(RT_OP_PAD, {graph_.reshape(part, local)}, padded,
                     {{RT_ATTR_AXIS, int64_t{s.axis + 1}}, {RT_ATTR_START, s.begin}});
    build_.all_reduce_into(term, graph_.reshape(all, padded), options_.communicator);
  }

  // This rank's slice of a value that is whole on all ranks. `s.blocks` must be 1.
  ValueId sliced(ValueId v, const Split& s) {
    const ValueId part = build_.node1(RT_OP_SLICE, {v}, local_dims(dims(v), s),
                                      {{RT_ATTR_AXIS, int64_t{s.axis}}, {RT_ATTR_START, s.begin}});
    graph_.nodes.back().partial = {1, options_.communicator};
    splits_[part] = s;
    return part;
  }

  // ---- nodes

  void emit(Node n) { graph_.nodes.push_back(std::move(n)); }

  // Emits a node with whole operands. Parameters among them stay whole from now on.
  void plain(Node n) {
    for (ValueId& v : n.inputs) {
      v = whole(v);
      fixed_.insert(graph_.storage(v));
    }
    emit(std::move(n));
  }

  // Emits a node whose output 0 may stay split over the tensor ranks; graph outputs are gathered,
  // so that callers always receive whole values.
  void emit_split(Node n, const Split& s) {
    const ValueId v = n.outputs[0];
    if (graph_.value(v).kind != ValueKind::kOutput) {
      set_split(v, s);
      return emit(std::move(n));
    }
    const ValueId own = n.outputs[0] = temporary(v, "", local_dims(dims(v), s));
    splits_[own] = s;
    emit(std::move(n));
    gather(own, v);
  }

  // Emits a node whose output 0 is the sum of what the ranks compute: an all-reduce follows.
  void emit_sum(Node n) {
    const ValueId sum = n.outputs[0];
    const ValueId own = n.outputs[0] = temporary(sum, ".part", Dims(dims(sum)));
    emit(std::move(n));
    build_.all_reduce_into(own, sum, options_.communicator);
  }

  SplitRule rule_of(const Node& n) const { return graph::operation_of(graph_, n).forward.split; }

  void place(const Node& n) {
    switch (rule_of(n)) {
      case SplitRule::kWhole:
        return plain(n);
      case SplitRule::kWeights:
        return has_weights(n, parameters_) ? product(n) : plain(n);
      case SplitRule::kTable:
        return embedding(n);
      case SplitRule::kHeads:
        return attention(n);
      case SplitRule::kKeyHeads:
        return attention_of_keys(n);
      case SplitRule::kElements:
      case SplitRule::kChannels:
        return by_channel(n);
      case SplitRule::kBroadcast:
      case SplitRule::kPair:
        return arithmetic(n);
      case SplitRule::kRows:
        return by_row(n);
      case SplitRule::kNormalised:
      case SplitRule::kMoments:
        return batch_norm(n);
      case SplitRule::kClasses:
        return kind_of(graph_, n) == graph::Kind::kLoss ? cross_entropy(n) : correct_count(n);
      case SplitRule::kTerm:
        return split(n.inputs[0]) ? emit_sum(n) : plain(n);
    }
  }

  // ---- linear layers and convolutions

  void product(Node n) {
    searched_.insert(n.layer);
    if (graph::integer_attribute(n, RT_ATTR_GROUPS, 1) > 1) return grouped(std::move(n));
    const bool conv = dims(n.inputs[1]).size() == 4;  // its filters are [O,KH,KW,C]
    const bool transposed = graph::integer_attribute(n, RT_ATTR_TRANSPOSE_B, 0) != 0;
    const int out = conv || transposed ? 0 : 1, in = conv ? 3 : 1 - out;
    const ValueId x = n.inputs[0], w = n.inputs[1];
    const Hint& hint = hint_of(options_.hints, n.layer);
    const Split* s = split(x);
    // The table of an embedding that is split already (tied weights).
    if (const Split* known = split(w)) {
      return known->axis == out && hint.columns ? column(n, out, *known) : plain(n);
    }
    if (!is_free(w) || !hint.cuts()) return plain(n);
    if (s != nullptr && s->axis == last_axis(x) && hint.rows) return row(n, in, *s);
    if (!hint.columns) {
      const Split part = own_slice(last_axis(x), 1, dims(w)[in], 1);
      if (!has_enough(n.layer, part, "inputs")) return plain(n);
      n.inputs[0] = sliced(whole(x), part);
      return row(n, in, part);
    }
    std::optional<Demand> demand = ahead_.demand(n.outputs[0]);
    if (!demand && !hint.rows) demand = Demand{};
    if (!demand) return plain(n);
    const Split part = own_slice(out, demand->blocks, dims(w)[out] / demand->blocks, demand->unit);
    has_enough(n.layer, part, "outputs") ? column(n, out, part) : plain(n);
  }

  // Cut by columns: the rank computes a slice of the outputs from all inputs.
  void column(Node n, int axis, const Split& s) {
    n.inputs[0] = whole(n.inputs[0]);
    n.partial = {1, options_.communicator};
    if (is_free(n.inputs[1])) set_parameter(n.inputs[1], s.along(axis));
    const Split out = s.along(last_axis(n.outputs[0]));
    emit_split(std::move(n), out);
  }

  // Cut by rows: the rank has a slice of the inputs; each output is a sum over the ranks.
  void row(Node n, int axis, const Split& s) {
    set_parameter(n.inputs[1], s.along(axis));
    emit_sum(std::move(n));
  }

  // The rank computes some groups of a convolution, with their inputs and outputs.
  void grouped(Node n) {
    const ValueId x = n.inputs[0], w = n.inputs[1];
    const int64_t groups = graph::integer_attribute(n, RT_ATTR_GROUPS, 1);
    const Split* known = split(x);
    const int64_t in = (known ? known->whole : dims(x)[3]) / groups, out = dims(w)[0] / groups;
    const Hint& hint = hint_of(options_.hints, n.layer);
    if (!is_free(w) || !hint.columns) return plain(n);
    Split s;
    if (known != nullptr && known->axis == 3 && known->blocks == 1 && known->unit % in == 0) {
      s = *known;
    } else {
      const std::optional<Demand> demand = ahead_.demand(n.outputs[0]);
      if (!demand && hint.rows) return plain(n);
      // As many groups stay together as whoever reads the result asks for, if that divides them.
      const int64_t wanted = demand ? std::lcm(demand->unit, out) / out : 1;
      const int64_t together = groups % wanted == 0 ? wanted : 1;
      s = own_slice(3, 1, in * groups, in * together);
      if (!has_enough(n.layer, s, "groups")) return plain(n);
      n.inputs[0] = sliced(whole(x), s);
    }
    set_attribute(n, RT_ATTR_GROUPS, s.length / in);
    const auto scaled = [&](int64_t channels) { return channels / in * out; };
    s.whole = scaled(s.whole), s.unit = scaled(s.unit);
    s.begin = scaled(s.begin), s.length = scaled(s.length);
    set_parameter(w, s.along(0));
    emit_split(std::move(n), s.along(3));
  }

  // Whether every rank gets at least one unit (a head, a group or a channel), which is never cut.
  // Throws if not and a hint demands the split.
  bool has_enough(const std::string& layer, const Split& s, const char* what) {
    const int64_t units = s.units();
    most_ = std::max(most_, units);
    const std::string size = std::to_string(units) + " " + (s.unit > 1 ? "heads or groups" : what);
    if (units >= options_.ranks) {
      if (units % options_.ranks != 0) note(layer, "its " + size + " are split unevenly");
      return true;
    }
    if (hint_of(options_.hints, layer).asked) {
      throw ConfigurationError("layer '" + layer + "' has " + size + " to split, but tensor = " +
                               std::to_string(options_.ranks) + "; set parallelism.tensor to " +
                               std::to_string(units) + " or less, or shard = \"none\" there");
    }
    note(layer, "not split: " + size + " are fewer than the ranks");
    return false;
  }

  void note(const std::string& layer, const std::string& what) {
    result_.notes.push_back("tensor parallelism, layer '" + layer + "': " + what);
  }

  // ---- other operations

  void embedding(Node n) {
    const ValueId table = n.inputs[1];
    if (!split(table)) {
      if (!is_free(table) || !hint_of(options_.hints, n.layer).cuts()) return plain(n);
      const Split s = own_slice(0, 1, dims(table)[0], 1);
      if (!has_enough(n.layer, s, "rows")) return plain(n);
      set_parameter(table, s);
    }
    if (split(table)->axis != 0) return plain(n);
    set_attribute(n, RT_ATTR_FIRST_ROW, split(table)->begin);
    emit_sum(std::move(n));
  }

  void by_channel(Node n) {
    const ValueId x = n.inputs[0];
    const Split* s = split(x);
    const bool per_element = rule_of(n) == SplitRule::kElements;
    if (s == nullptr || (!per_element && s->axis != last_axis(x))) return plain(n);
    if (kind_of(graph_, n) == graph::Kind::kRandom) {
      n.attributes.insert(n.attributes.end(), {{RT_ATTR_COLUMNS, s->length},
                                               {RT_ATTR_WHOLE_COLUMNS, s->whole},
                                               {RT_ATTR_FIRST_COLUMN, s->begin}});
    }
    const Split out = per_element ? *s : s->along(last_axis(n.outputs[0]));
    emit_split(std::move(n), out);
  }

  // What is computed from whole rows: those of this rank. The gradients of the other operands,
  // which all rows share, are partial.
  void by_row(Node n) {
    const Split* s = split(n.inputs[0]);
    if (s == nullptr || s->axis == last_axis(n.inputs[0])) return plain(n);
    for (size_t i = 1; i < n.inputs.size(); ++i) {
      n.inputs[i] = whole(n.inputs[i]);
      fixed_.insert(graph_.storage(n.inputs[i]));
      n.partial.inputs |= 1u << i;
    }
    n.partial.communicator = options_.communicator;
    const Split out = *s;
    emit_split(std::move(n), out);
  }

  // A split value combined with a value that is split alike, a parameter that can be split alike,
  // or a value that does not have this axis (broadcasting).
  void arithmetic(Node n) {
    const int own = split(n.inputs[0]) ? 0 : 1;
    const ValueId x = n.inputs[own], other = n.inputs[1 - own];
    if (split(x) == nullptr) return plain(n);
    const Split s = *split(x);
    const int from_end = last_axis(x) - s.axis, axis = last_axis(other) - from_end;
    if (const Split* o = split(other)) {
      if (!o->is_like(s) || o->axis != axis) return plain(n);
    } else if (axis < 0 || dims(other)[axis] == 1) {
      n.partial = {1u << (1 - own), options_.communicator};
    } else if (is_free(other)) {
      set_parameter(other, s.along(axis));
    } else {
      return plain(n);
    }
    const Split out = s.along(last_axis(n.outputs[0]) - from_end);
    emit_split(std::move(n), out);
  }

  // Statistics and moments cover this rank's channels; their dims differ from those of x.
  void batch_norm(Node n) {
    const Split* found = split(n.inputs[0]);
    if (found == nullptr || found->axis != last_axis(n.inputs[0])) return plain(n);
    const Split s = *found;
    for (size_t i = 1; i < n.inputs.size(); ++i) {
      if (is_free(n.inputs[i])) set_parameter(n.inputs[i], s.along(0));
    }
    if (rule_of(n) == SplitRule::kNormalised) return emit_split(std::move(n), s);
    const ValueId out = n.outputs[0];
    splits_[out] = s.along(last_axis(out));
    Dims local = dims(out);
    local.back() = 2 * s.blocks * s.length + 1;
    graph_.resize(out, std::move(local));
    emit(std::move(n));
  }

  // The operand has `blocks` blocks of the result's width: q, k and v, or the result's columns.
  void attention(Node n) {
    const ValueId x = n.inputs[0];
    const int64_t heads = graph::integer_attribute(n, RT_ATTR_HEADS, 1);
    const int64_t width = dims(n.outputs[0]).back(), depth = width / heads;
    if (split(x) == nullptr) {  // perhaps because there are too few heads
      if (heads < options_.ranks) has_enough(n.layer, {.whole = width, .unit = depth}, "heads");
      return plain(n);
    }
    const Split s = *split(x);
    if (s.axis != last_axis(x) || s.blocks != whole_width(x) / width || s.unit % depth != 0)
      return plain(n);
    set_attribute(n, RT_ATTR_HEADS, s.length / depth);
    Split out = s;
    out.blocks = 1;
    emit_split(std::move(n), out);
  }

  // Whether every rank can take the heads of keys and values that its heads of queries read. `q` is
  // this rank's slice of the queries. Split keys must be cut where the queries are; of whole keys a
  // rank takes the heads of whole groups of queries, or the one that all of its queries read. All
  // ranks are looked at, so that the answer is the same on each.
  bool keys_fit(const Node& n, const Split& q, int64_t shared, int64_t group) const {
    const int64_t width = q.whole / (shared * group);  // of a head of queries
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const Split own = slice_of(q, rank, options_.ranks);
      const int64_t first = own.begin / width, heads = own.length / width;
      for (size_t i = 1; i < 3; ++i) {
        const Split* const s = split(n.inputs[i]);
        const int64_t depth = whole_width(n.inputs[i]) / shared;
        if (s == nullptr) {
          const bool one = first / group == (first + heads - 1) / group;
          if (!one && (first % group != 0 || heads % group != 0)) return false;
          continue;
        }
        const Split keys = slice_of(*s, rank, options_.ranks);
        if (s->axis != last_axis(n.inputs[i]) || s->blocks != 1 || s->unit % depth != 0 ||
            keys.begin * group != first * depth || keys.length * group != heads * depth)
          return false;
      }
    }
    return true;
  }

  // The keys and values of this rank, for its `heads` of queries from `first` on.
  void take_keys(Node& n, int64_t shared, int64_t first, int64_t heads, int64_t group) {
    const int64_t own = std::max<int64_t>(heads / group, 1);
    for (size_t i = 1; i < 3; ++i) {
      if (split(n.inputs[i]) != nullptr) continue;
      const int64_t depth = whole_width(n.inputs[i]) / shared;
      n.inputs[i] = sliced(n.inputs[i], {.axis = last_axis(n.inputs[i]),
                                         .whole = shared * depth,
                                         .unit = depth,
                                         .begin = first / group * depth,
                                         .length = own * depth});
    }
    set_attribute(n, RT_ATTR_KEY_HEADS, own);
  }

  int64_t whole_width(ValueId v) const {
    const Split* const s = split(v);
    return s == nullptr ? dims(v).back() : whole_dims(dims(v), *s).back();
  }

  void attention_of_keys(Node n) {
    const ValueId q = n.inputs[0];
    const int64_t heads = graph::integer_attribute(n, RT_ATTR_HEADS, 1),
                  given = graph::integer_attribute(n, RT_ATTR_KEY_HEADS, 0),
                  shared = given > 0 ? given : heads;
    const int64_t width = dims(n.outputs[0]).back();
    if (split(q) == nullptr) {  // perhaps because there are too few heads
      if (heads < options_.ranks)
        has_enough(n.layer, {.whole = width, .unit = width / heads}, "heads");
      return plain(n);
    }
    const Split s = *split(q);
    const int64_t depth = whole_width(q) / heads;
    if (s.axis != last_axis(q) || s.blocks != 1 || s.unit % depth != 0) return plain(n);
    const int64_t first = s.begin / depth, own = s.length / depth, group = heads / shared;
    if (!keys_fit(n, s, shared, group)) return plain(n);
    take_keys(n, shared, first, own, group);
    set_attribute(n, RT_ATTR_HEADS, own);
    set_attribute(n, RT_ATTR_FIRST_HEAD,
                  graph::integer_attribute(n, RT_ATTR_FIRST_HEAD, 0) + first);
    const int64_t columns = width / heads;
    emit_split(std::move(n), {.axis = last_axis(q),
                              .whole = width,
                              .unit = s.unit / depth * columns,
                              .begin = first * columns,
                              .length = own * columns});
  }

  void cross_entropy(Node n) {
    const ValueId logits = n.inputs[0], labels = n.inputs[1];
    const Split* s = split(logits);
    if (s == nullptr || s->axis != last_axis(logits) || s->blocks != 1) return plain(n);
    const int64_t rows = graph::element_count(dims(labels));
    const ValueId part = build_.node1(RT_OP_CROSS_ENTROPY_STATISTICS, {logits, labels},
                                      {1, rows, 4}, {{RT_ATTR_FIRST_CLASS, s->begin}});
    const ValueId all = build_.all_gather(part, options_.ranks, options_.communicator);
    // The merge node writes the loss into the output of the original node.
    merge_ = graph_.nodes.size();
    build_.node(RT_OP_CROSS_ENTROPY_MERGE, {all, n.inputs[2]}, {{1}, {rows, 2}, {1}});
    graph_.nodes[merge_].outputs[0] = n.outputs[0];
    merged_ = n.inputs;
  }

  // The merge node counts correct predictions too.
  void correct_count(Node n) {
    if (n.inputs != merged_) return plain(n);
    graph_.nodes[merge_].outputs[2] = n.outputs[0];
  }

  // ---- the check at the end

  void check() const {
    for (const auto& [layer, hint] : options_.hints) {
      const Hint& known = hint_of(options_.hints, layer);
      if (known.asked && known.cuts() && !searched_.contains(layer)) {
        throw ConfigurationError("layer '" + layer + "': shard = \"" + hint +
                                 "\" is for linear and conv2d layers; remove it");
      }
    }
    const bool any = std::any_of(result_.parameters.begin(), result_.parameters.end(),
                                 [](const ShardedParameter& p) { return !p.split.is_whole(); });
    if (any) return;
    std::string text = "parallelism.tensor = " + std::to_string(options_.ranks) +
                       " splits no layer of this model: ";
    for (const std::string& n : result_.notes) text += "\n  " + n;
    throw ConfigurationError(
        text + (most_ > 1 ? "\nset it to " + std::to_string(most_) + " or less"
                          : "\nno two layers follow each other that can be split; set it to 1"));
  }

  Graph& graph_;
  const ShardOptions& options_;
  const std::set<ValueId> parameters_;
  const std::vector<Node> before_;
  const Lookahead ahead_;
  graph::Build build_;
  graph::Rewriter rewriter_;
  std::map<ValueId, Split> splits_;
  std::map<ValueId, ValueId> whole_;
  std::set<ValueId> settled_;  // views that have been visited
  std::set<ValueId> fixed_;    // parameters whose split, or not, is decided
  std::set<std::string> searched_;
  size_t merge_ = 0;  // index of the cross-entropy merge, whose original inputs are `merged_`
  std::vector<ValueId> merged_;
  int64_t most_ = 1;  // the largest tensor degree that splits a layer
  Sharded result_;
};

}  // namespace

Sharded shard(Graph& graph, const std::vector<ValueId>& parameters, const ShardOptions& options) {
  return Shard(graph, parameters, options).run(parameters);
}

}  // namespace runtime::parallel
