// The pass that appends the update: loss scaling, clipping, optimizer.
#include <algorithm>
#include <map>

#include "runtime/graph/build.h"
#include "runtime/step/optimizer.h"
#include "runtime/step/passes.h"

namespace runtime::step {

using graph::kNone;
using graph::ValueId;
using graph::ValueKind;

namespace {

class AddUpdate {
 public:
  AddUpdate(Step& step, const StepInput& input)
      : graph_(step.graph),
        values_(step.values),
        buffers_(step.values.buffers),
        input_(input),
        dtype_(input.strategy.precision.parameters),
        build_(step.graph) {}

  void run() {
    build_.phase = graph::Phase::kUpdate;
    build_.layer = "optimizer";
    const ValueId scale = gradient_scale();
    if (buffers_.layout.bytes == 0) {  // a stage without parameters; other ranks wait for its norm
      if (scale != values_.one) keep_output(graph_, scale, "gradient_scale");
      return;
    }
    UpdateValues operands;
    operands.parameters = buffers_.parameters;
    operands.gradients = buffers_.gradients;
    operands.scale = scale;
    operands.scaled = scale != values_.one;
    if (!input_.strategy.zero_partitions(1)) operands.narrow = buffers_.narrow;
    add_optimizer(build_, input_.training.optimizer, operands, input_.training.max_value);
    values_.update = operands.inputs;
  }

 private:
  // The factor of the gradient in the update.
  ValueId gradient_scale() {
    const double limit = input_.training.max_norm;
    const std::vector<graph::Attribute> max_norm = {{RT_ATTR_MAX_NORM, limit}};
    if (values_.loss_scaling != kNone) {
      const ValueId sum = square_sum();
      const ValueId scale = graph_.add_value("", ValueKind::kTemporary, {1}, dtype_);
      build_.node_into(RT_OP_LOSS_SCALE, {sum, values_.loss_scaling}, {scale, values_.loss_scaling},
                       max_norm);
      return scale;
    }
    if (limit > 0) {
      values_.gradient_scale = build_.node1(RT_OP_CLIP_SCALE, {square_sum()}, {1}, max_norm);
      keep_output(graph_, values_.gradient_scale, "gradient_scale");
      return values_.gradient_scale;
    }
    return values_.one;
  }

  ValueId gradient_view(uint64_t offset, uint64_t bytes) {
    const auto elements = static_cast<int64_t>(bytes / graph::dtype_bytes(dtype_));
    const ValueId v = graph_.add_value("", ValueKind::kTemporary, {elements}, dtype_);
    graph_.value(v).base = buffers_.gradients;
    graph_.value(v).offset = offset;
    return v;
  }

  // A range of the gradients of which as many ranks have a copy, in bytes.
  struct Range {
    uint64_t begin, end;
    int copies;
  };

  // The gradients of this rank in as few ranges as possible. Padding between parameters is zero.
  std::vector<Range> ranges() const {
    std::vector<Range> all;
    for (size_t i = 0; i < values_.parameters.size(); ++i) {
      if (values_.gradients[i] == kNone) continue;
      const uint64_t begin = values_.offsets[i];
      all.push_back({begin,
                     begin + graph::canonical_bytes(graph_.value(values_.parameters[i].value)),
                     copies_of_gradient(values_, i, input_.strategy)});
    }
    std::sort(all.begin(), all.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    std::vector<Range> joined;
    for (const Range& range : all) {
      if (!joined.empty() && joined.back().copies == range.copies)
        joined.back().end = range.end;
      else
        joined.push_back(range);
    }
    return joined;
  }

  // The sum of the squares of the whole gradient, over the ranks of the tensor and pipeline axes.
  ValueId square_sum() {
    const Strategy& strategy = input_.strategy;
    // Leaves out the padding at the end, whose size depends on the number of ranks.
    if (!strategy.model_parallel())
      return build_.square_sum(gradient_view(0, buffers_.layout.used_bytes));
    std::map<int, ValueId> sums;  // by number of copies
    for (const Range& range : ranges()) {
      const ValueId square = build_.square_sum(gradient_view(range.begin, range.end - range.begin));
      const auto [sum, is_first] = sums.try_emplace(range.copies, square);
      if (!is_first) sum->second = build_.add(sum->second, square);
    }
    ValueId sum = kNone;
    for (const auto& [copies, squares] : sums) {
      const ValueId share = copies > 1 ? build_.scale(squares, 1.0 / copies) : squares;
      sum = sum == kNone ? share : build_.add(sum, share);
    }
    if (sum == kNone) sum = build_.scale(values_.one, 0);  // this rank has no gradient
    if (strategy.mesh.tensor > 1) sum = build_.all_reduce(sum, parallel::kTensorCommunicator);
    if (strategy.mesh.pipeline > 1) sum = build_.all_reduce(sum, parallel::kPipelineCommunicator);
    return sum;
  }

  graph::Graph& graph_;
  StepValues& values_;
  parallel::StepBuffers& buffers_;
  const StepInput& input_;
  const rt_dtype dtype_;
  graph::Build build_;
};

}  // namespace

void add_update(Step& step, const StepInput& input) {
  if (input.form.update()) AddUpdate(step, input).run();
}

}  // namespace runtime::step
