// The lists of passes, in their order, and the loop that runs and checks them.
#include "runtime/step/compile_step.h"

#include "runtime/error.h"
#include "runtime/graph/check.h"
#include "runtime/graph/fuse.h"
#include "runtime/graph/layout.h"
#include "runtime/graph/lower.h"
#include "runtime/step/passes.h"

namespace runtime::step {

namespace {

void take_notes(Step& step, std::vector<std::string> notes) {
  std::move(notes.begin(), notes.end(), std::back_inserter(step.notes));
}

void lower(Step& step, graph::Target& target) {
  graph::remove_dead_nodes(step.graph);
  take_notes(step, graph::lower(step.graph, target));
}

void lower_rest(Step& step, graph::Target& target) {
  take_notes(step, graph::lower_rest(step.graph, target));
}

void fuse(Step& step, graph::Target& target) {
  graph::fuse(step.graph, target);
  graph::unfuse(step.graph, target);
  graph::remove_dead_nodes(step.graph);
}

void choose_layouts(Step& step, graph::Target& target) {
  graph::choose_layouts(step.graph, target);
}

template <typename With>
struct Pass {
  const char* name;  // that of the function, so that who reads --passes can search for it
  void (*run)(Step& step, With& with);
};

constexpr Pass<const StepInput> kBuild[] = {
    {"forward", forward},
    {"add_loss", add_loss},
    {"check_task", check_task},
    {"split_tensors", split_tensors},
    {"narrow_activations", narrow_activations},
    {"differentiate", differentiate},
    {"cut_stages", cut_stages},
    {"place_in_flat_buffers", place_in_flat_buffers},
    {"narrow_parameters", narrow_parameters},
    {"fold_batch_norms", fold_batch_norms},
    {"add_update", add_update},
};

constexpr Pass<graph::Target> kFit[] = {
    {"narrow_in_update", narrow_in_update},
    {"lower", lower},
    {"fuse", fuse},
    {"choose_layouts", choose_layouts},
};

// No layout is chosen from here on: copies of a node share its kernel.
constexpr Pass<const StepInput> kDistribute[] = {
    {"recompute", recompute},
    {"partition_gradients", partition_gradients},
    {"repeat_step", repeat_step},
    {"gather_parameters", gather_parameters},
    {"schedule_collectives", schedule_collectives},
};

// The last pass composes nodes that the list above has made, or had to recognise.
constexpr Pass<graph::Target> kFinish[] = {
    {"lower_rest", lower_rest},
};

template <typename With, size_t n>
void run(const Pass<With> (&passes)[n], Step& step, With& with, const AfterPass& after) {
  for (const Pass<With>& pass : passes) {
    pass.run(step, with);
    if (after) after(pass.name, step);
    if (const std::string fault = graph::fault_of(step.graph); !fault.empty())
      throw InternalError("the pass '" + std::string(pass.name) +
                          "' left a broken graph: " + fault);
  }
}

}  // namespace

Step build_step(const StepInput& input, const AfterPass& after) {
  Step step;
  run(kBuild, step, input, after);
  step.values.first_added = static_cast<graph::ValueId>(step.graph.values.size());
  return step;
}

Step compile_step(const StepInput& input, graph::Target& target, const AfterPass& after) {
  Step step = build_step(input, after);
  run(kFit, step, target, after);
  run(kDistribute, step, input, after);
  run(kFinish, step, target, after);
  return step;
}

}  // namespace runtime::step
