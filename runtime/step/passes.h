// The passes of compile_step() that live in this folder. Each changes the step that earlier passes
// have made; one that has nothing to do for this form or strategy returns at once.
#ifndef RUNTIME_STEP_PASSES_H_
#define RUNTIME_STEP_PASSES_H_

#include "runtime/graph/target.h"
#include "runtime/step/step_input.h"

namespace runtime::step {

// The model's layers.
void forward(Step& step, const StepInput& input);
// Loss, L2 penalty and number of correct predictions. Makes the output readable where the caller
// reads it.
void add_loss(Step& step, const StepInput& input);
// Throws ConfigurationError if predictions or vocabulary do not fit the data set, or if there is no
// block to recompute.
void check_task(Step& step, const StepInput& input);
// Tensor axis: forward and loss become those of this rank (parallel/shard.h).
void split_tensors(Step& step, const StepInput& input);
// 16-bit activations (graph/mixed_precision.h). Runs after the tensor-parallel split, so that ranks
// exchange 16-bit activations.
void narrow_activations(Step& step, const StepInput& input);
// The backward pass (graph/autodiff.h).
void differentiate(Step& step, const StepInput& input);
// Pipeline axis: forward and backward become those of this rank (parallel/pipeline.h). Gradients
// that other ranks compute become kNone.
void cut_stages(Step& step, const StepInput& input);
// Parameters and gradients become views of flat buffers.
void place_in_flat_buffers(Step& step, const StepInput& input);
// The casts of parameters to 16 bits become one cast of each flat buffer. Its result is kept
// between steps (graph::ValueKind::kPacked) and made again when the parameters have changed; the
// operations read views of it. With ZeRO stage 3 a rank holds no whole parameters, and the casts
// remain.
void narrow_parameters(Step& step, const StepInput& input);
// Batch normalisations become parts of the convolutions before them in a step without a backward
// pass (graph/fold_batch_norm.h), unless a rank holds no whole parameters (ZeRO stage 3).
void fold_batch_norms(Step& step, const StepInput& input);
// Loss scaling, clipping and the optimizer, which writes the 16-bit copy of what it updates unless
// ZeRO lets it update a part only.
void add_update(Step& step, const StepInput& input);

// Takes the 16-bit copy from an optimizer that the device cannot run with it. The cast then makes
// the copy again after each update.
void narrow_in_update(Step& step, graph::Target& target);

// Activations of blocks are computed again in the backward pass (graph/recompute.h).
void recompute(Step& step, const StepInput& input);
// ZeRO stages 2 and 3: this rank keeps its partition of the gradients (parallel/zero.h).
void partition_gradients(Step& step, const StepInput& input);
// Virtual shards, or micro-batches in the order of the schedule (parallel/repeat_step.h).
void repeat_step(Step& step, const StepInput& input);
// ZeRO stage 3: parameters are gathered ahead of their use (parallel/zero.h).
void gather_parameters(Step& step, const StepInput& input);
// Data axis: buckets, overlap, the update bucket by bucket (parallel/schedule_collectives.h).
void schedule_collectives(Step& step, const StepInput& input);

// Whether this rank holds a parameter (by index).
bool holds(const Step& step, size_t parameter);

// The number of ranks of the tensor and pipeline axes that have a copy of a parameter's gradient.
// Sums over these axes divide by it.
int copies_of_gradient(const StepValues& values, size_t parameter, const Strategy& strategy);

// Makes `value` readable after the step under `name`.
void keep_output(graph::Graph& graph, graph::ValueId value, const std::string& name);

}  // namespace runtime::step

#endif  // RUNTIME_STEP_PASSES_H_
