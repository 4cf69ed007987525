// Attention by cuDNN's engines, which compile the graph for the shape when a plan is made. The
// forward saves what our own kernel saves, so forward and backward may come from different kernels.
#include "backends/cuda/cudnn_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cuda/cudnn_attention_graph.h"
#include "backends/gpu/counted.h"
#include "rt/sdk/attention_operands.h"

namespace backends::cuda {
namespace {

using attention::Id;
using attention::Layout;
using attention::layout_of;
using attention::Shape;
using gpu::Kernel;
using gpu::Launch;
using gpu::Operation;
using rt::sdk::Error;
using rt::sdk::format;

constexpr size_t kMostPlans = 2;  // few, because making a plan compiles its kernel for about 1 s

bool is_backward(const Operation& op) {
  return op.is(RT_OP_ATTENTION_BACKWARD) || op.is(RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD);
}

// The shape of `attention`, `dot_product_attention` and their gradients. If cuDNN is not asked for
// the operation, `without` receives the reason.
Shape shape_of(const Operation& op, std::string* without) {
  const rt_dtype dtype = op.input(0).dtype;
  if (op.is(RT_OP_ATTENTION) || op.is(RT_OP_ATTENTION_BACKWARD)) {
    const gpu::AttentionShape s = gpu::attention_shape(op);
    return {s, dtype, 1.0f / std::sqrt(static_cast<float>(s.d)), true, s.key_heads};
  }
  const rt::sdk::DotProductAttention given =
      is_backward(op) ? rt::sdk::dot_product_attention_backward_shape(op, dtype)
                      : rt::sdk::dot_product_attention_shape(op, dtype);
  if (given.probability > 0) *without = "cuDNN draws other random numbers for dropout";
  if (given.documents > 0) *without = "cuDNN is not asked for attention within documents";
  if (given.causal && given.queries != given.keys)
    *without = "cuDNN is not asked for causal attention with fewer queries than keys";
  const gpu::AttentionShape s = {
      given.samples,   given.queries,     given.heads,
      given.width,     given.causal,      given.keys,
      given.key_heads, given.value_width, given.window < given.keys ? given.window : 0};
  return {s, dtype, static_cast<float>(given.scale), false, s.key_heads};
}

// How many times longer our own kernel is expected to take than cuDNN's. README.md says from what
// this was estimated; nothing was measured.
int own_is_slower(const Shape& s, bool backward) {
  if (std::max(s.d, s.e) <= gpu::kMostTensorColumns) return backward ? 5 : 3;
  return backward ? 30 : 20;
}

// Numbers that a graph gets by value; cuDNN reads them at launch.
struct Numbers {
  float scale;
  int32_t window;
  float lowest = std::numeric_limits<float>::lowest(), one = 1;
};

// Where a slice of the batch begins: at this sample and key head.
struct First {
  int64_t sample = 0, line = 0;
};

// Addresses for the graph of the slice that begins there; `s` is the whole batch.
std::vector<void*> addresses_of(const Graph& graph, const Shape& s, bool backward,
                                const Numbers& numbers, const Launch& l, const First& first) {
  // The first of the slice's 16-bit numbers in an operand.
  const auto slice = [&](Id id, const void* const* tensors) -> void* {
    const Layout layout = layout_of(s, id);
    const int64_t head = first.line * (layout.heads / s.key_heads);
    return static_cast<uint16_t*>(const_cast<void*>(tensors[layout.tensor])) + layout.begin +
           first.sample * layout.rows * layout.step + head * layout.columns;
  };
  const auto number = [](const auto& value) -> void* {
    return const_cast<void*>(static_cast<const void*>(&value));
  };
  const auto address = [&](Id id) -> void* {
    using enum Id;
    switch (id) {
      case kQ:
      case kK:
      case kV:
        return slice(id, l.inputs + (backward ? 1 : 0));
      case kY:
        return backward ? slice(id, l.inputs + (s.packed ? 2 : 4)) : slice(id, l.outputs);
      case kSaved:
        return static_cast<float*>(l.saved) +
               (first.sample * s.heads + first.line * s.group()) * s.t;
      case kDy:
        return slice(id, l.inputs);
      case kDq:
      case kDk:
      case kDv:
        return slice(id, l.outputs);
      case kScale:
        return number(numbers.scale);
      case kLowest:
        return number(numbers.lowest);
      case kOne:
        return number(numbers.one);
      case kWindow:
        return number(numbers.window);
      case kFirstVirtual:
        break;
    }
    return nullptr;
  };
  std::vector<void*> addresses;
  for (const int64_t id : graph.ids) addresses.push_back(address(static_cast<Id>(id)));
  return addresses;
}

using Plans = std::vector<std::shared_ptr<const Plan>>;

// Plans for the graph of s, whatever workspace they need.
Plans plans_of(const std::shared_ptr<Session>& session, const Shape& s, bool backward,
               size_t most) {
  const auto graph = attention::make_graph(*session, s, backward);
  Wishes wishes;
  wishes.compiles_at_run_time = true;
  wishes.most_workspace = std::numeric_limits<int64_t>::max();
  return find_plans(session, graph, wishes, std::min(most, kMostPlans));
}

// The batch in slices of `shape`: some samples with all heads, or some key heads of one sample with
// their queries. `last` is what remains of the samples, or of the heads of each sample, with 0
// samples or heads if nothing does. plans[i] computes a slice; rest[i], of the same engine,
// computes a last one.
struct Slices {
  Shape shape, last;
  Plans plans, rest;
};

// How many samples or key heads each slice has where `all` are cut into slices of about equal size,
// of at most `most`, at least 1.
int64_t equal_slices(int64_t all, int64_t most) {
  const int64_t slices = (all + most - 1) / most;
  return (all + slices - 1) / slices;
}

// How many of `all` samples or key heads to try after the plan for `tried` of them was found to
// need `needed` bytes of workspace: the workspace is taken to grow with them, and the slices are
// made about equal. Each try compiles a kernel, so the number falls by an eighth at least.
int64_t fewer(int64_t all, int64_t tried, int64_t needed, int64_t most_workspace) {
  const double fitting = static_cast<double>(tried) * static_cast<double>(most_workspace) /
                         static_cast<double>(needed);
  const int64_t most = std::min(static_cast<int64_t>(fitting), tried - (tried + 7) / 8);
  return most < 1 ? 1 : equal_slices(all, most);
}

// The samples whose operands each have at most as many elements, in memory, as the library is asked
// to count; 0: not even one has so few, nor any of its heads, which lie between those of others.
int64_t counted_samples(const Shape& s) {
  int64_t most = 0;
  for (const Id id : {Id::kQ, Id::kK, Id::kV, Id::kY}) {
    const Layout layout = layout_of(s, id);
    most = std::max(most, layout.rows * layout.step);
  }
  return gpu::kMostCounted / most;
}

// What remains of the batch, or of each of its samples, behind slices of that shape.
Shape last_of(const Shape& whole, const Shape& slice) {
  if (slice.key_heads < whole.key_heads) return slice.with_lines(whole.key_heads % slice.key_heads);
  Shape last = slice;
  last.n = whole.n % slice.n;
  return last;
}

// Plans for the largest slices that are counted and whose workspace is within the limits, without
// those for the last ones. If there are none, `without` receives the reason.
Slices find_largest(const std::shared_ptr<Session>& session, const Shape& s, bool backward,
                    size_t most, const WorkspaceLimits& limits, std::string* without) {
  const auto needs_less = [](const auto& a, const auto& b) { return a->workspace < b->workspace; };
  if (counted_samples(s) == 0) {
    *without = format("cuDNN is asked for at most %lld elements, and one sample has more",
                      static_cast<long long>(gpu::kMostCounted));
    return {};
  }
  Shape slice = s;
  slice.n = equal_slices(s.n, counted_samples(s));
  while (true) {
    Plans found = plans_of(session, slice, backward, most);
    if (found.empty()) {
      *without = "cuDNN has no engine for this attention";
      return {};
    }
    const bool one = slice.n == 1 && slice.key_heads == 1;
    const int64_t limit = one ? std::max(limits.usual, limits.of_one_head) : limits.usual;
    const int64_t needed = (*std::min_element(found.begin(), found.end(), needs_less))->workspace;
    if (needed <= limit) {
      std::erase_if(found, [&](const auto& plan) { return plan->workspace > limit; });
      return {slice, last_of(s, slice), found, {}};
    }
    if (one) {
      *without = format(
          "cuDNN's attention needs %.3g GB of workspace for one key head of one sample, at most "
          "%.3g",
          static_cast<double>(needed) / 1e9, static_cast<double>(limit) / 1e9);
      return {};
    }
    if (slice.n > 1)
      slice.n = fewer(s.n, slice.n, needed, limit);
    else
      slice = slice.with_lines(fewer(s.key_heads, slice.key_heads, needed, limit));
  }
}

// The slices with plans of the same engines for all of them.
Slices find_slices(const std::shared_ptr<Session>& session, const Shape& s, bool backward,
                   size_t most, const WorkspaceLimits& limits, std::string* without) {
  Slices slices = find_largest(session, s, backward, most, limits, without);
  if (slices.plans.empty() || slices.last.rows() == 0) return slices;
  const Plans rest = plans_of(session, slices.last, backward, most);
  for (auto plan = slices.plans.begin(); plan != slices.plans.end();) {
    const auto same = std::find_if(rest.begin(), rest.end(), [&](const auto& other) {
      return other->engine == (*plan)->engine && other->workspace <= limits.usual;
    });
    if (same != rest.end()) slices.rest.push_back(*same);
    plan = same != rest.end() ? plan + 1 : slices.plans.erase(plan);
  }
  if (slices.plans.empty()) *without = "cuDNN has no engine for the last slice of this batch";
  return slices;
}

// What the graph of one slice costs: the products, the operands in 16 bits, and for the backward
// operation delta, the sum of dy y of each row, which is written and read again.
gpu::Work work_of(const Shape& s, bool backward) {
  const auto bytes = [&](Id id) {
    const Layout layout = layout_of(s, id);
    return static_cast<double>(s.n * layout.heads * layout.rows * layout.columns) *
           sizeof(uint16_t);
  };
  const double saved = static_cast<double>(s.rows()) * sizeof(float),
               all = bytes(Id::kQ) + bytes(Id::kK) + bytes(Id::kV) + bytes(Id::kY);
  if (!backward) return {"cudnn attention", all + saved, 2 * s.product_flops()};
  return {"cudnn attention_backward", 2 * all + 3 * saved, 5 * s.product_flops()};
}

// The kernel that queues plan `way` of the slices, one slice after another in the same workspace.
Kernel make(const Shape& s, bool backward, const Slices& slices, size_t way) {
  struct Step {
    std::shared_ptr<const Plan> plan;
    First first;
  };
  Kernel kernel;
  std::vector<Step> steps;
  const auto add = [&](const First& first, int64_t samples, int64_t lines) {
    const bool whole = samples == slices.shape.n && lines == slices.shape.key_heads;
    steps.push_back({(whole ? slices.plans : slices.rest)[way], first});
    const auto workspace = static_cast<uint64_t>(steps.back().plan->workspace);
    kernel.workspace_bytes = std::max(kernel.workspace_bytes, workspace);
    kernel.work.push_back(work_of(whole ? slices.shape : slices.last, backward));
  };
  for (int64_t sample = 0; sample < s.n; sample += slices.shape.n) {
    for (int64_t line = 0; line < s.key_heads; line += slices.shape.key_heads)
      add({sample, line}, std::min(slices.shape.n, s.n - sample),
          std::min(slices.shape.key_heads, s.key_heads - line));
  }
  kernel.implementation =
      format("cudnn attention engine %lld", static_cast<long long>(slices.plans[way]->engine));
  if (steps.size() > 1) kernel.implementation += format(", %zu slices", steps.size());
  (backward ? kernel.reads_saved : kernel.saved_bytes) =
      static_cast<uint64_t>(s.rows()) * sizeof(float);
  const Numbers numbers = {s.scale, static_cast<int32_t>(s.window)};
  kernel.run = [=](const Launch& l) {
    for (const Step& step : steps) {
      const Graph& graph = *step.plan->graph;
      run(*step.plan, addresses_of(graph, s, backward, numbers, l, step.first), l);
    }
  };
  return kernel;
}

}  // namespace

bool is_attention(const Operation& op) {
  return op.is(RT_OP_ATTENTION) || op.is(RT_OP_DOT_PRODUCT_ATTENTION) || is_backward(op);
}

std::vector<Kernel> attention_kernels(const std::shared_ptr<Session>& session, const Operation& op,
                                      size_t most, const WorkspaceLimits& limits,
                                      std::string* without) {
  const rt_dtype dtype = op.input(0).dtype;
  if (dtype != RT_FLOAT16 && dtype != RT_BFLOAT16) return {};
  const bool backward = is_backward(op);
  without->clear();
  const Shape s = shape_of(op, without);
  if (s.rows() == 0 || s.keys == 0) return {};
  std::vector<Kernel> kernels;
  try {
    if (s.d % 8 != 0 || s.e % 8 != 0) {
      *without = format("cuDNN's attention needs heads of a multiple of 8 columns, not %lld",
                        static_cast<long long>(s.d % 8 != 0 ? s.d : s.e));
    } else if (without->empty()) {
      const Slices slices = find_slices(session, s, backward, most, limits, without);
      for (size_t way = 0; way < slices.plans.size(); ++way) {
        kernels.push_back(make(s, backward, slices, way));
      }
    }
  } catch (const Error& refusal) {  // this version of the library does not support the graph
    *without = refusal.what();
  }
  if (!without->empty()) {
    *without +=
        format("; by estimate, ours takes about %d times as long", own_is_slower(s, backward));
  }
  return kernels;
}

}  // namespace backends::cuda
