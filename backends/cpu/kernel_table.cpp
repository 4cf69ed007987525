// The table rt.kernel, made from Engine and Plan.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "backends/cpu/host_limits.h"
#include "backends/cpu/layouts.h"
#include "backends/cpu/objects.h"

namespace backends::cpu {
namespace {

using rt::sdk::format;

rt_candidate to_c(const Engine& engine, const Operation& op, const Candidate& candidate,
                  uint64_t algorithm) {
  rt_candidate c{};
  c.algorithm = algorithm;
  c.estimated_ns = candidate.estimated_ns;
  rt::sdk::copy_text(c.implementation, candidate.implementation);
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    c.input_layouts[i] = candidate.input_layouts[i];
    c.input_bytes[i] = engine.layout_bytes(with_layout(op.input(i), c.input_layouts[i]));
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    c.output_layouts[i] = candidate.output_layouts[i];
    c.output_bytes[i] = engine.layout_bytes(with_layout(op.output(i), c.output_layouts[i]));
  }
  return c;
}

void write_candidates(const Engine& engine, const Operation& op, const EngineAnswer& answer,
                      rt_support& support) {
  support.candidate_count = static_cast<uint32_t>(answer.candidates.size());
  if (support.candidates == nullptr) return;
  const size_t count = std::min<size_t>(answer.candidates.size(), support.candidate_capacity);
  for (uint32_t i = 0; i < count; ++i) {
    rt::sdk::write_element(support.candidates, i,
                           to_c(engine, op, answer.candidates[i], answer.algorithms[i]));
  }
}

void query(rt_device& device, const rt_op_desc* desc, rt_support* support) {
  rt::sdk::check_size(support);
  const Operation op(desc);
  const EngineAnswer answer = device.engine.query(op);
  support->level = answer.level;
  support->post_ops_fused = answer.level == RT_SUPPORT_REFUSED ? 0 : answer.post_ops_fused;
  support->deterministic = 1;
  support->tolerance = answer.tolerance;
  support->reason_operand = answer.reason_operand;
  rt::sdk::copy_text(support->reason, answer.reason);
  write_candidates(device.engine, op, answer, *support);
}

void check_concrete(const Operation& op) {
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (op.input(i).layout == RT_LAYOUT_ANY)
      op.fail(
          format("input %u has RT_LAYOUT_ANY; create needs the layout of a candidate of query", i));
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    if (op.output(i).layout == RT_LAYOUT_ANY)
      op.fail(format("output %u has RT_LAYOUT_ANY; create needs the layout of a candidate of query",
                     i));
  }
}

rt_plan* create(rt_device& device, const rt_op_desc* desc) {
  const Operation op(desc);
  check_concrete(op);
  auto made = std::make_unique<rt_plan>();
  made->plan = device.engine.create(op);
  made->input_count = op.input_count();
  made->output_count = op.output_count();
  return made.release();
}

// In the first launch of a plan oneDNN generates code, and crashes without memory for it. So one
// thread at a time of the process does that, right behind a check: every rank of a step allocates
// at once, and together they could use up what each found free.
void launch_first(rt_plan& plan, const rt_launch& given) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  require_headroom();
  plan.plan->launch(given);
  plan.launched.store(true, std::memory_order_release);
}

rt_status layout_bytes(rt_device* device, const rt_tensor_desc* tensor, uint64_t* bytes,
                       rt_error* error) {
  return rt::sdk::guard(error,
                        [&] { *bytes = device->engine.layout_bytes(rt::sdk::read_input(tensor)); });
}

rt_status layout_name(rt_device* device, const rt_tensor_desc* tensor, char* name,
                      uint64_t capacity, rt_error* error) {
  return rt::sdk::guard(error, [&] {
    const std::string text = device->engine.layout_name(rt::sdk::read_input(tensor));
    std::snprintf(name, capacity, "%s", text.c_str());
  });
}

constexpr rt_kernel_api make_table() {
  rt_kernel_api table = rt::sdk::plan_table<query, create>();
  table.layout_bytes = layout_bytes;
  table.layout_name = layout_name;
  return table;
}

}  // namespace

constinit const rt_kernel_api kKernelApi = make_table();

const Plan* forward_plan(const Operation& op) {
  return op.desc().forward == nullptr ? nullptr : op.desc().forward->plan.get();
}

}  // namespace backends::cpu

rt_plan_info rt_plan::info() const {
  const backends::cpu::PlanInfo& from = plan->info();
  rt_plan_info i{};
  i.flags = RT_PLAN_DETERMINISTIC;
  i.workspace_bytes = from.workspace_bytes;
  i.saved_bytes = from.saved_bytes;
  std::copy(from.in_place.begin(), from.in_place.end(), i.in_place);
  rt::sdk::copy_text(i.implementation, from.implementation);
  return i;
}

void rt_plan::launch(rt_stream& stream, const rt_launch& given) {
  if (plan->info().workspace_bytes > 0 && given.workspace == nullptr) {
    throw rt::sdk::Error(RT_ERROR_INVALID_ARGUMENT,
                         "a launch without the workspace that the plan needs; pass a buffer of the "
                         "plan's workspace size");
  }
  const backends::cpu::Team::Use use = stream.engine.use_team();
  if (launched.load(std::memory_order_acquire)) {
    plan->launch(given);
  } else {
    backends::cpu::launch_first(*this, given);
  }
}
