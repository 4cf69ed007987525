#include "runtime/parallel/distribute.h"

#include <algorithm>
#include <iterator>

#include "runtime/error.h"
#include "runtime/parallel/replicate.h"
#include "runtime/parallel/unroll.h"
#include "runtime/parallel/update.h"
#include "runtime/parallel/zero.h"

namespace runtime::parallel {

namespace {

using graph::Dims;
using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Phase;
using graph::ValueId;
using graph::ValueKind;

class Distribute {
 public:
  Distribute(Graph& graph, const StepBuffers& buffers, const ShardValues& inputs,
             const DistributeOptions& options)
      : graph_(graph), buffers_(buffers), inputs_(inputs), options_(options), emit_(graph) {}

  Distributed run() {
    if (has_room_for_loss()) add_room_for_loss();
    make_targets();
    if (scatters()) whole_ = split_gradients(graph_, emit_, buffers_, options_);
    NodeList updates;
    for (const Node& n : graph_.nodes) {
      if (n.phase == Phase::kUpdate) updates.push_back(n);
    }
    Replicate replicate(graph_, emit_, buffers_, inputs_, options_, targets_);
    const bool pipeline = options_.pipeline != nullptr;
    nodes_ = pipeline ? unroll(graph_, emit_, replicate, *options_.pipeline) : replicate.run();
    if (options_.sharded(3)) gather_parameters(graph_, emit_, buffers_, options_, nodes_);
    for (int s = 0; s < options_.copies(); ++s) {
      const auto of = [&](ValueId v) {
        v = replicate.of(s, v);
        return pipeline && !is_input(v) ? kNone : v;
      };
      result_.shards.push_back(
          {of(inputs_.features), of(inputs_.target), of(inputs_.weight), of(inputs_.sample_base)});
      if (!pipeline) losses_.push_back(replicate.of(s, buffers_.loss));
    }
    result_.correct = buffers_.correct;
    if (pipeline) add_totals(replicate);
    after_.resize(nodes_.size());
    if (buffers_.gradients != kNone) {
      reduce_loss();
      for (size_t b = buffers_.layout.buckets.size(); b-- > 0;) reduce_bucket(b);
      move(scattered_, after_.back());
    } else {
      result_.loss = losses_[0];
    }
    assemble(std::move(updates));
    return std::move(result_);
  }

 private:
  bool deterministic() const { return options_.shards > 0; }
  bool communicates() const { return options_.reduce && options_.world_size > 1; }
  bool scatters() const { return options_.sharded(2) && buffers_.gradients != kNone; }
  // Whether the loss is all-reduced together with the bucket that is ready first, which saves a
  // collective. Not with a pipeline, where the loss is complete only after the gradients.
  bool loss_travels() const { return options_.zero_stage == 0 && has_room_for_loss(); }
  bool has_room_for_loss() const {
    return options_.world_size > 1 && !deterministic() && !scatters() &&
           options_.pipeline == nullptr && buffers_.gradients != kNone &&
           !buffers_.layout.buckets.empty() &&
           graph_.value(buffers_.loss).dtype == graph_.value(buffers_.gradients).dtype;
  }
  int64_t elements(uint64_t bytes) const {
    return static_cast<int64_t>(bytes / graph::dtype_bytes(graph_.value(buffers_.gradients).dtype));
  }

  bool is_input(ValueId v) const {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& n) {
      return std::any_of(n.inputs.begin(), n.inputs.end(),
                         [&](ValueId input) { return graph_.storage(input) == v; });
    });
  }

  // The sums of losses and counts over the micro-batches.
  void add_totals(Replicate& replicate) {
    const auto total = [&](ValueId v) {
      return emit_total(graph_, emit_, replicate, *options_.pipeline, v, nodes_);
    };
    losses_ = {total(buffers_.loss)};
    if (buffers_.correct != kNone) result_.correct = total(buffers_.correct);
  }

  // One element behind the last bucket, in every training step of a model, so that all agree on the
  // size of the buffer.
  void add_room_for_loss() {
    graph::Value& gradients = graph_.value(buffers_.gradients);
    gradients.dims = {elements(buffers_.layout.bytes) + 1};
    gradients.bytes = graph::canonical_bytes(gradients);
  }

  // The buffers that the backward pass writes: the gradients, or one buffer for each virtual shard.
  void make_targets() {
    targets_.assign(options_.copies(), buffers_.gradients);
    if (buffers_.gradients == kNone || !deterministic()) return;
    for (size_t s = 0; s < targets_.size(); ++s) {
      targets_[s] = emit_.value("shard_gradients." + std::to_string(s), ValueKind::kState,
                                buffers_.gradients, {elements(buffers_.layout.bytes)});
    }
  }

  // The index of the last node that writes gradients of bucket b.
  size_t ready(size_t b) const {
    size_t last = 0;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (ValueId v : nodes_[i].outputs) {
        if (v != kNone && writes(v, b)) last = i;
      }
    }
    return last;
  }

  bool writes(ValueId v, size_t b) const {
    if (scatters()) return graph_.storage(v) == whole_[b];
    const Bucket& bucket = buffers_.layout.buckets[b];
    uint64_t offset = 0;
    for (; graph_.value(v).base != kNone; v = graph_.value(v).base)
      offset += graph_.value(v).offset;
    return std::find(targets_.begin(), targets_.end(), v) != targets_.end() &&
           offset >= bucket.begin && offset < bucket.end;
  }

  size_t last_writer(const std::vector<ValueId>& values) const {
    size_t last = 0;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (ValueId v : nodes_[i].outputs) {
        if (std::find(values.begin(), values.end(), v) != values.end()) last = i;
      }
    }
    return last;
  }

  // Starts the collective behind node `at`, or behind the last node without overlap. Its wait goes
  // before the update.
  void communicate(int32_t kind, int32_t reduction, ValueId send, ValueId receive, size_t at,
                   const std::string& layer) {
    Emit::Pair pair =
        emit_.collective(kind, reduction, send, receive, kGradientsCommunicator, layer);
    after_[options_.overlap ? at : nodes_.size() - 1].push_back(std::move(pair.start));
    waits_.push_back(std::move(pair.wait));
  }

  // The loss summed over this micro-step and earlier ones.
  ValueId accumulated(ValueId loss, size_t at) {
    const ValueId total = emit_.value("loss_sum", ValueKind::kState, loss, {1});
    if (options_.accumulate) {
      const ValueId sum = emit_.temporary(total, {1});
      after_[at].push_back(emit_.add(total, loss, sum, "accumulate"));
      loss = sum;
    }
    after_[at].push_back(emit_.copy(loss, total, "accumulate"));
    return total;
  }

  void reduce_loss() {
    const size_t at = last_writer(losses_);
    ValueId loss = losses_[0];
    if (deterministic()) return gather_losses(at);
    if (options_.accumulate || !options_.reduce) loss = accumulated(loss, at);
    result_.loss = loss;
    if (!communicates()) return;
    if (!loss_travels()) return communicate(RT_ALL_REDUCE, RT_SUM, loss, loss, at, "loss");
    result_.loss = emit_.view(buffers_.gradients, buffers_.layout.bytes, 1);
    after_[at].push_back(emit_.copy(loss, result_.loss, "loss"));
  }

  // All-gathers the loss of every virtual shard; one kernel of the same shape on any number of
  // ranks adds them.
  void gather_losses(size_t at) {
    const int64_t own = options_.copies();
    const ValueId rows = emit_.concat(losses_, "loss", after_[at]);
    ValueId all = rows;
    if (options_.world_size > 1) {
      all = emit_.temporary(rows, {own * options_.world_size});
      communicate(RT_ALL_GATHER, 0, rows, all, at, "loss");
    }
    result_.loss = emit_.value("loss_sum", ValueKind::kOutput, rows, {1});
    Node sum = emit_.node(RT_OP_REDUCE, "loss", Phase::kBackward,
                          {emit_.view(all, 0, int64_t{options_.total_shards})}, {result_.loss});
    sum.attributes = {{RT_ATTR_FUNCTION, int64_t{RT_REDUCE_SUM}}, {RT_ATTR_AXES, int64_t{1}}};
    waits_.push_back(std::move(sum));
  }

  void reduce_bucket(size_t b) {
    const Bucket& bucket = buffers_.layout.buckets[b];
    const std::string layer = "bucket " + std::to_string(buffers_.layout.buckets.size() - 1 - b);
    ready_ = std::max(ready_, ready(b));
    if (scatters()) return scatter_bucket(b, layer);
    if (deterministic()) return add_shards(bucket, layer);
    const ValueId whole = view(buffers_.gradients, bucket);
    if (!communicates()) return;
    if (options_.zero_stage == 0) {
      const bool with_loss = loss_travels() && b + 1 == buffers_.layout.buckets.size();
      const ValueId sent =
          emit_.view(buffers_.gradients, bucket.begin, elements(bucket.bytes()) + with_loss);
      communicate(RT_ALL_REDUCE, RT_SUM, sent, sent, ready_, layer);
    } else {
      communicate(RT_REDUCE_SCATTER, RT_SUM, whole, view(buffers_.gradients, own_part(bucket)),
                  ready_, layer);
    }
  }

  static void move(NodeList& from, NodeList& to) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    from.clear();
  }

  // Reduce-scatters a bucket's whole gradients into this rank's ZeRO partition. The collective runs
  // while the next bucket is computed and is waited for after that, so that at most two buckets are
  // in memory.
  void scatter_bucket(size_t b, const std::string& layer) {
    const Bucket& bucket = buffers_.layout.buckets[b];
    const int64_t part = elements(bucket.bytes()) / options_.world_size;
    const ValueId own = emit_.view(buffers_.gradients, bucket.begin / options_.world_size, part);
    const ValueId received = options_.accumulate ? emit_.temporary(own, {part}) : own;
    NodeList& out = after_[ready_];
    fill_gaps(graph_, emit_, whole_[b], nodes_, out);
    move(scattered_, out);
    Emit::Pair pair = emit_.collective(RT_REDUCE_SCATTER, RT_SUM, whole_[b], received,
                                       kGradientsCommunicator, layer);
    out.push_back(std::move(pair.start));
    scattered_.push_back(std::move(pair.wait));
    if (options_.accumulate) {
      const ValueId sum = emit_.temporary(own, {part});
      scattered_.push_back(emit_.add(own, received, sum, layer));
      scattered_.push_back(emit_.copy(sum, own, layer));
    }
    if (!options_.overlap) move(scattered_, out);
  }

  ValueId view(ValueId base, const Bucket& range) {
    return emit_.view(base, range.begin, elements(range.bytes()));
  }

  Bucket own_part(const Bucket& bucket) const {
    return bucket.part(options_.rank, options_.world_size);
  }

  // Each rank owns a slice of the bucket: it receives this slice of all virtual shards and adds
  // them.
  void add_shards(const Bucket& bucket, const std::string& layer) {
    const uint64_t part = bucket.bytes() / options_.world_size;
    std::vector<ValueId> shards(options_.total_shards, kNone);
    for (int s = 0; s < options_.shards; ++s) {
      ValueId received = view(targets_[s], bucket);
      if (options_.world_size > 1) {
        const ValueId sent = received;
        received = emit_.temporary(sent, graph_.value(sent).dims);
        communicate(RT_ALL_TO_ALL, 0, sent, received, ready_, layer);
      }
      for (int r = 0; r < options_.world_size; ++r) {
        const int shard = r * options_.shards + s;
        if (shard < options_.total_shards)
          shards[shard] = emit_.view(received, r * part, elements(part));
      }
    }
    const ValueId own = view(buffers_.gradients, own_part(bucket));
    add_tree(shards, own, layer);
    if (options_.world_size > 1 && options_.zero_stage == 0) {
      Emit::Pair gather = emit_.collective(RT_ALL_GATHER, 0, own, view(buffers_.gradients, bucket),
                                           kGradientsCommunicator, layer);
      waits_.push_back(std::move(gather.start));
      waits_.push_back(std::move(gather.wait));
    }
  }

  // ((0+1)+(2+3))+...: the order of additions does not depend on the number of ranks.
  void add_tree(std::vector<ValueId> level, ValueId result, const std::string& layer) {
    if (level.size() == 1) waits_.push_back(emit_.copy(level[0], result, layer));
    while (level.size() > 1) {
      std::vector<ValueId> next;
      for (size_t i = 0; i + 1 < level.size(); i += 2) {
        const ValueId sum =
            level.size() == 2 ? result : emit_.temporary(result, graph_.value(result).dims);
        waits_.push_back(emit_.add(level[i], level[i + 1], sum, layer));
        next.push_back(sum);
      }
      if (level.size() % 2 == 1) next.push_back(level.back());
      level = std::move(next);
    }
  }

  void assemble(NodeList updates) {
    graph_.nodes.clear();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      graph_.nodes.push_back(std::move(nodes_[i]));
      for (Node& n : after_[i]) graph_.nodes.push_back(std::move(n));
    }
    distribute_update(graph_, emit_, buffers_, options_, std::move(waits_), std::move(updates));
  }

  Graph& graph_;
  const StepBuffers& buffers_;
  const ShardValues& inputs_;
  const DistributeOptions& options_;
  Emit emit_;
  std::vector<ValueId> targets_, losses_;  // by virtual shard or micro-batch
  std::vector<ValueId> whole_;             // by bucket: the temporaries of zero.h
  NodeList scattered_;  // the wait for the previous bucket and the nodes behind it
  NodeList nodes_;
  std::vector<NodeList> after_;  // by node: the nodes that follow it
  NodeList waits_;               // nodes between backward and update
  size_t ready_ = 0;  // the node behind which all buckets so far are ready; they start in order
  Distributed result_;
};

}  // namespace

Distributed distribute(Graph& graph, const StepBuffers& buffers, const ShardValues& inputs,
                       const DistributeOptions& options) {
  return Distribute(graph, buffers, inputs, options).run();
}

}  // namespace runtime::parallel
