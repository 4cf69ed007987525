// Starts each bucket's reduction behind its last gradient, and waits where it is needed.
#include "runtime/parallel/schedule_collectives.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/graph/rewriter.h"
#include "runtime/parallel/update.h"
#include "runtime/parallel/zero.h"

namespace runtime::parallel {

namespace {

using graph::Graph;
using graph::Insertions;
using graph::kNone;
using graph::Node;
using graph::NodeList;
using graph::Phase;
using graph::ValueId;
using graph::ValueKind;

class Collectives {
 public:
  Collectives(Graph& graph, StepBuffers& buffers, const DistributeOptions& options)
      : graph_(graph),
        buffers_(buffers),
        options_(options),
        rewriter_(graph),
        nodes_(std::exchange(graph.nodes, {})),
        updates_(graph::take_updates(nodes_)),
        insertions_(nodes_.size()) {}

  void run() {
    if (buffers_.gradients == kNone) {
      buffers_.loss = buffers_.losses[0];
    } else {
      if (has_room_for_loss()) add_room_for_loss();
      if (scatters())
        shrink_to_partition(graph_, buffers_.gradients, buffers_.layout, options_.partitions());
      reduce_loss();
      if (scatters()) scatter_buckets();
      for (size_t b = buffers_.layout.buckets.size(); b-- > 0 && !scatters();) reduce_bucket(b);
      append(insertions_.at_end(), scattered_);
    }
    graph_.nodes = insertions_.applied_to(std::move(nodes_));
    distribute_update(graph_, rewriter_, buffers_, options_, std::move(waits_),
                      std::move(updates_));
  }

 private:
  bool deterministic() const { return options_.shards > 0; }
  bool communicates() const { return options_.reduce && options_.world_size > 1; }
  bool scatters() const { return !buffers_.bucket_gradients.empty(); }
  // Whether the loss is all-reduced together with the bucket that is ready first, which saves a
  // collective. Not with a pipeline, where the loss is complete only after the gradients.
  bool loss_travels() const { return options_.zero_stage == 0 && has_room_for_loss(); }
  bool has_room_for_loss() const {
    return options_.world_size > 1 && !deterministic() && !scatters() &&
           options_.pipeline == nullptr && !buffers_.layout.buckets.empty() &&
           graph_.value(buffers_.losses[0]).dtype == graph_.value(buffers_.gradients).dtype;
  }
  int64_t elements(uint64_t bytes) const {
    return static_cast<int64_t>(bytes / graph::dtype_bytes(graph_.value(buffers_.gradients).dtype));
  }

  // One element behind the last bucket, in every training step of a model, so that all agree on the
  // size of the buffer.
  void add_room_for_loss() {
    graph_.resize(buffers_.gradients, {elements(buffers_.layout.bytes) + 1});
  }

  // The index of the last node with an output for which `is_sought` is true; 0 if there is none.
  template <class IsSought>
  size_t last_writer(IsSought&& is_sought) const {
    size_t last = 0;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (ValueId v : nodes_[i].outputs) {
        if (v != kNone && is_sought(v)) last = i;
      }
    }
    return last;
  }

  bool writes(ValueId v, size_t b) const {
    const Bucket& bucket = buffers_.layout.buckets[b];
    const auto [target, offset] = graph_.place_of(v);
    return is_target(target) && offset >= bucket.begin && offset < bucket.end;
  }

  // Whether a backward pass writes its gradients to this buffer.
  bool is_target(ValueId v) const {
    const std::vector<ValueId>& targets = buffers_.shard_gradients;
    return std::find(targets.begin(), targets.end(), v) != targets.end();
  }

  // Starts the collective behind node `at`, or behind the last node without overlap. Its wait goes
  // before the update.
  void communicate(int32_t kind, int32_t reduction, ValueId send, ValueId receive, size_t at,
                   const std::string& layer) {
    graph::CollectivePair pair =
        rewriter_.collective(kind, reduction, send, receive, kGradientsCommunicator, layer);
    insertions_.after(options_.overlap ? at : nodes_.size() - 1).push_back(std::move(pair.start));
    waits_.push_back(std::move(pair.wait));
  }

  // The loss summed over this micro-step and earlier ones.
  ValueId accumulated(ValueId loss, size_t at) {
    const ValueId total = rewriter_.value("loss_sum", ValueKind::kState, loss, {1});
    if (options_.accumulate) {
      const ValueId sum = rewriter_.temporary(total, {1});
      insertions_.after(at).push_back(rewriter_.add(total, loss, sum, "accumulate"));
      loss = sum;
    }
    insertions_.after(at).push_back(rewriter_.copy(loss, total, "accumulate"));
    return total;
  }

  void reduce_loss() {
    std::set<ValueId> losses;  // a composed operation writes its output through a view
    for (ValueId v : buffers_.losses) losses.insert(graph_.storage(v));
    const size_t at = last_writer([&](ValueId v) { return losses.contains(graph_.storage(v)); });
    ValueId loss = buffers_.losses[0];
    if (deterministic()) return gather_losses(at);
    if (options_.accumulate || !options_.reduce) loss = accumulated(loss, at);
    buffers_.loss = loss;
    if (!communicates()) return;
    if (!loss_travels()) return communicate(RT_ALL_REDUCE, RT_SUM, loss, loss, at, "loss");
    buffers_.loss = rewriter_.view(buffers_.gradients, buffers_.layout.bytes, 1);
    insertions_.after(at).push_back(rewriter_.copy(loss, buffers_.loss, "loss"));
  }

  // All-gathers the loss of every virtual shard; one kernel of the same shape on any number of
  // ranks adds them.
  void gather_losses(size_t at) {
    const int64_t own = options_.copies();
    const ValueId rows = rewriter_.concat(buffers_.losses, "loss", insertions_.after(at));
    ValueId all = rows;
    if (options_.world_size > 1) {
      all = rewriter_.temporary(rows, {own * options_.world_size});
      communicate(RT_ALL_GATHER, 0, rows, all, at, "loss");
    }
    buffers_.loss = rewriter_.value("loss_sum", ValueKind::kOutput, rows, {1});
    Node sum =
        rewriter_.node(RT_OP_REDUCE, "loss", Phase::kBackward,
                       {rewriter_.view(all, 0, int64_t{options_.total_shards})}, {buffers_.loss});
    sum.attributes = {{RT_ATTR_FUNCTION, int64_t{RT_REDUCE_SUM}}, {RT_ATTR_AXES, int64_t{1}}};
    waits_.push_back(std::move(sum));
  }

  std::string layer_of(size_t bucket) const {
    return "bucket " + std::to_string(buffers_.layout.buckets.size() - 1 - bucket);
  }

  void reduce_bucket(size_t b) {
    const Bucket& bucket = buffers_.layout.buckets[b];
    const std::string layer = layer_of(b);
    ready_ = std::max(ready_, last_writer([&](ValueId v) { return writes(v, b); }));
    if (deterministic()) return add_shards(bucket, layer);
    const ValueId whole = view(buffers_.gradients, bucket);
    if (!communicates()) return;
    if (!options_.zero_partitions(1)) {
      const bool with_loss = loss_travels() && b + 1 == buffers_.layout.buckets.size();
      const ValueId sent =
          rewriter_.view(buffers_.gradients, bucket.begin, elements(bucket.bytes()) + with_loss);
      communicate(RT_ALL_REDUCE, RT_SUM, sent, sent, ready_, layer);
      return;
    }
    const ValueId own =
        view(buffers_.gradients, bucket.partition(options_.partition(), options_.partitions()));
    if (options_.has_replicas()) return reduce_over_replicas(whole, own, layer);
    communicate(RT_REDUCE_SCATTER, RT_SUM, whole, own, ready_, layer);
  }

  // Reduce-scatters a bucket among the ranks that hold one copy of the partitions, and all-reduces
  // this rank's partition among the copies while the next bucket is computed.
  void reduce_over_replicas(ValueId whole, ValueId own, const std::string& layer) {
    const ValueId part = rewriter_.temporary(own, graph_.value(own).dims);
    graph::CollectivePair scatter = rewriter_.collective(RT_REDUCE_SCATTER, RT_SUM, whole, part,
                                                         kPartitionsCommunicator, layer);
    graph::CollectivePair reduce =
        rewriter_.collective(RT_ALL_REDUCE, RT_SUM, part, own, kReplicasCommunicator, layer);
    NodeList& out = insertions_.after(options_.overlap ? ready_ : nodes_.size() - 1);
    append(out, scattered_);
    out.push_back(std::move(scatter.start));
    scattered_.push_back(std::move(scatter.wait));
    scattered_.push_back(std::move(reduce.start));
    waits_.push_back(std::move(reduce.wait));
    if (!options_.overlap) append(out, scattered_);
  }

  // The whole gradients of a bucket, or those of one micro-batch of a pipeline.
  struct Whole {
    size_t bucket;
    ValueId gradients;
    std::vector<size_t> writers;  // nodes
    size_t ready() const { return writers.empty() ? 0 : writers.back(); }
  };

  // With a pipeline each micro-batch reduces its gradients, in the order in which they are
  // computed, and all are added up in the rank's ZeRO partition.
  void scatter_buckets() {
    std::map<ValueId, std::vector<size_t>> writers;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const ValueId v : nodes_[i].outputs) {
        if (v != kNone) writers[graph_.storage(v)].push_back(i);
      }
    }
    std::vector<Whole> all;
    for (size_t b = buffers_.layout.buckets.size(); b-- > 0;) {
      for (const ValueId gradients : buffers_.bucket_gradients[b])
        all.push_back({b, gradients, writers[gradients]});
    }
    if (options_.pipeline != nullptr) std::ranges::stable_sort(all, {}, &Whole::ready);
    std::map<size_t, size_t> scattered;
    for (const Whole& whole : all) {
      const size_t number = ++scattered[whole.bucket];
      scatter_bucket(whole, number > 1 || options_.accumulate,
                     number == buffers_.bucket_gradients[whole.bucket].size());
    }
  }

  // Reduce-scatters whole gradients into this rank's ZeRO partition, to which it `adds` them. The
  // collective runs while the next bucket is computed and is waited for after that, so that at most
  // two buckets are in memory.
  void scatter_bucket(const Whole& whole, bool adds, bool is_last) {
    const Bucket& bucket = buffers_.layout.buckets[whole.bucket];
    const std::string layer = layer_of(whole.bucket);
    ready_ = std::max(ready_, whole.ready());
    const int64_t part = elements(bucket.bytes()) / options_.partitions();
    const ValueId own =
        rewriter_.view(buffers_.gradients, bucket.begin / options_.partitions(), part);
    const ValueId received = adds ? rewriter_.temporary(own, {part}) : own;
    NodeList& out = insertions_.after(ready_);
    fill_gaps(graph_, rewriter_, whole.gradients, buffers_.layout.alignment, nodes_, whole.writers,
              insertions_);
    append(out, scattered_);
    graph::CollectivePair pair =
        rewriter_.collective(RT_REDUCE_SCATTER, RT_SUM, whole.gradients, received,
                             options_.partitions_communicator(), layer);
    out.push_back(std::move(pair.start));
    scattered_.push_back(std::move(pair.wait));
    if (adds) {
      const ValueId sum = rewriter_.temporary(own, {part});
      scattered_.push_back(rewriter_.add(own, received, sum, layer));
      scattered_.push_back(rewriter_.copy(sum, own, layer));
    }
    if (is_last && options_.reduce && options_.has_replicas()) {
      graph::CollectivePair reduce =
          rewriter_.collective(RT_ALL_REDUCE, RT_SUM, own, own, kReplicasCommunicator, layer);
      scattered_.push_back(std::move(reduce.start));
      waits_.push_back(std::move(reduce.wait));
    }
    if (!options_.overlap) append(out, scattered_);
  }

  ValueId view(ValueId base, const Bucket& range) {
    return rewriter_.view(base, range.begin, elements(range.bytes()));
  }

  Bucket own_partition(const Bucket& bucket) const {
    return bucket.partition(options_.rank, options_.world_size);
  }

  // Each rank owns a slice of the bucket: it receives this slice of all virtual shards and adds
  // them.
  void add_shards(const Bucket& bucket, const std::string& layer) {
    const uint64_t part = bucket.bytes() / options_.world_size;
    std::vector<ValueId> shards(options_.total_shards, kNone);
    for (int s = 0; s < options_.shards; ++s) {
      ValueId received = view(buffers_.shard_gradients[s], bucket);
      if (options_.world_size > 1) {
        const ValueId sent = received;
        received = rewriter_.temporary(sent, graph_.value(sent).dims);
        communicate(RT_ALL_TO_ALL, 0, sent, received, ready_, layer);
      }
      for (int r = 0; r < options_.world_size; ++r) {
        const int shard = r * options_.shards + s;
        if (shard < options_.total_shards)
          shards[shard] = rewriter_.view(received, r * part, elements(part));
      }
    }
    const ValueId own = view(buffers_.gradients, own_partition(bucket));
    add_tree(shards, own, layer);
    if (options_.world_size > 1 && options_.zero_stage == 0) {
      graph::CollectivePair gather = rewriter_.collective(
          RT_ALL_GATHER, 0, own, view(buffers_.gradients, bucket), kGradientsCommunicator, layer);
      waits_.push_back(std::move(gather.start));
      waits_.push_back(std::move(gather.wait));
    }
  }

  // ((0+1)+(2+3))+...: the order of additions does not depend on the number of ranks.
  void add_tree(std::vector<ValueId> level, ValueId result, const std::string& layer) {
    if (level.size() == 1) waits_.push_back(rewriter_.copy(level[0], result, layer));
    while (level.size() > 1) {
      std::vector<ValueId> next;
      for (size_t i = 0; i + 1 < level.size(); i += 2) {
        const ValueId sum =
            level.size() == 2 ? result : rewriter_.temporary(result, graph_.value(result).dims);
        waits_.push_back(rewriter_.add(level[i], level[i + 1], sum, layer));
        next.push_back(sum);
      }
      if (level.size() % 2 == 1) next.push_back(level.back());
      level = std::move(next);
    }
  }

  Graph& graph_;
  StepBuffers& buffers_;
  const DistributeOptions& options_;
  graph::Rewriter rewriter_;
  NodeList nodes_, updates_;
  Insertions insertions_;  // between nodes_
  NodeList scattered_;     // the wait for the previous bucket and the nodes behind it
  NodeList waits_;         // nodes between backward and update
  size_t ready_ = 0;  // the node behind which all buckets so far are ready; they start in order
};

}  // namespace

void schedule_collectives(Graph& graph, StepBuffers& buffers, const DistributeOptions& options) {
  Collectives(graph, buffers, options).run();
}

}  // namespace runtime::parallel
