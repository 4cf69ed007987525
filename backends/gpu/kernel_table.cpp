// The table rt.kernel. The reference, which defines the operations, checks descriptions, so
// factories need not check them.
#include "rt/sdk/kernel_table.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "backends/gpu/estimate.h"
#include "backends/gpu/objects.h"
#include "backends/gpu/row_layout.h"
#include "backends/reference/answer.h"

namespace backends::gpu {
namespace {

using rt::sdk::copy_text;
using rt::sdk::Error;
using rt::sdk::format;
using rt::sdk::Refusal;

constexpr double kTolerance = 2e-5;  // float32; sums are in the type of the operands
constexpr double kTolerance64 = 1e-12;
// One unit in the last place, because a sum in another order may be rounded to the neighbouring
// number.
constexpr double kTolerance16 = 0x1p-10, kToleranceBrain16 = 0x1p-7;
constexpr size_t kMostCandidates = 5;  // most candidates of a query; the last one is our own kernel

const Entry* find_entry(const Operation& op) {
  for (const Family family :
       {elementwise_family(), gate_family(), reduction_family(), loss_family(),
        normalisation_family(), product_family(), pooling_family(), attention_family(),
        movement_family(), optimizer_family()}) {
    for (size_t i = 0; i < family.count; ++i) {
      if (op.is(family.begin[i].name)) return &family.begin[i];
    }
  }
  return nullptr;
}

double tolerance_of(const Operation& op) {
  const rt_dtype result = op.output_count() > 0 ? op.output(0).dtype : 0;
  if (result == RT_FLOAT16) return kTolerance16;
  if (result == RT_BFLOAT16) return kToleranceBrain16;
  const auto is_wide = [](const rt_tensor_desc* operand) { return operand->dtype == RT_FLOAT64; };
  const rt_op_desc& desc = op.desc();
  const bool wide =
      result == RT_FLOAT64 || std::any_of(desc.inputs, desc.inputs + desc.input_count, is_wide);
  return wide ? kTolerance64 : kTolerance;
}

// Our own kernel of the operation; nullopt if there is none.
std::optional<Kernel> make_own(const rt_device& device, const Operation& op) {
  const bool rows = has_row_layout(op);
  if (rows && op.is(RT_OP_COPY)) return make_row_copy(op);
  const Entry* entry = find_entry(op);
  if (entry == nullptr) return std::nullopt;
  if (rows && op.is(RT_OP_MATMUL)) {
    throw Error(RT_ERROR_UNSUPPORTED, "matmul: only the library multiplies padded rows");
  }
  return entry->make(device.properties, op);
}

// At most `most` candidates for the operation, the default first: those of the vendor's libraries,
// then our own kernel. Throws the error of our own kernel if there is no candidate. `without`
// receives the reason if a library that should serve the operation does not.
std::vector<Kernel> make(const rt_device& device, const Operation& op, size_t most,
                         std::string* without) {
  std::vector<Kernel> candidates;
  if (device.vendor != nullptr) {
    candidates = device.vendor->kernels(op, std::min(most, kMostCandidates - 1), without);
  }
  try {
    if (candidates.size() < most) {
      if (auto own = make_own(device, op)) candidates.push_back(std::move(*own));
    }
  } catch (const Error& refusal) {
    if (refusal.code() != RT_ERROR_UNSUPPORTED || candidates.empty()) throw;
  }
  if (candidates.empty()) {
    throw Error(RT_ERROR_UNSUPPORTED, format("%s: no kernel for this operation", op.desc().name));
  }
  return candidates;
}

uint32_t most_post_ops(const Operation& op) {
  const Entry* entry = find_entry(op);
  return entry != nullptr && entry->has(kFuses) ? kMostPostOps : 0;
}

// A candidate and the kernel that it stands for.
struct Candidate {
  rt_candidate candidate;
  double tolerance;
};

// Adds the candidates for the layouts of `op`; algorithm i + 1 is kernels[i]. The kernels are in
// the order of preference, the library's first, and a guess from bytes and operations does not know
// how well a kernel uses the device: a later kernel never counts as faster than an earlier one.
void add_candidates(const rt_device& device, const Operation& op,
                    const std::vector<Kernel>& kernels, std::vector<Candidate>& candidates) {
  rt_candidate candidate = rt::sdk::canonical_candidate(op, "");
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    candidate.input_layouts[i] = op.input(i).layout;
    candidate.input_bytes[i] = stored_bytes(op.input(i));
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    candidate.output_layouts[i] = op.output(i).layout;
    candidate.output_bytes[i] = stored_bytes(op.output(i));
  }
  candidate.estimated_ns = 0;
  for (uint32_t i = 0; i < kernels.size(); ++i) {
    candidate.algorithm = i + 1;
    candidate.estimated_ns =
        std::max(candidate.estimated_ns, estimated_ns(device.properties, op, kernels[i]));
    copy_text(candidate.implementation, kernels[i].implementation);
    candidates.push_back({candidate, kernels[i].tolerance});
  }
}

// The candidates in all layouts that the host leaves open: the canonical one and, for a product of
// large matrices, aligned rows. `without` as in make().
std::vector<Candidate> find_candidates(const rt_device& device, const Operation& op,
                                       std::string* without) {
  const Relaid plain(op, [](const rt_tensor_desc&) { return RT_LAYOUT_CANONICAL; });
  const Operation canonical(plain.desc());
  std::vector<Candidate> candidates;
  add_candidates(device, canonical, make(device, canonical, kMostCandidates, without), candidates);
  const Relaid aligned(op, layout_for_products);
  if (device.vendor == nullptr || !op.is(RT_OP_MATMUL) || op.post_op_count() > 0 ||
      op.output_count() > 1 || aligned == plain)
    return candidates;
  const Operation rows(aligned.desc());
  std::string reason;
  add_candidates(device, rows, device.vendor->kernels(rows, kMostCandidates - 1, &reason),
                 candidates);
  return candidates;
}

void list(const std::vector<Candidate>& candidates, rt_support* support) {
  support->candidate_count = static_cast<uint32_t>(candidates.size());
  if (support->candidates == nullptr) return;
  for (uint32_t i = 0; i < candidates.size() && i < support->candidate_capacity; ++i) {
    rt::sdk::write_element(support->candidates, i, candidates[i].candidate);
  }
}

// Whether RT_POST_STORE is worth fusing: a library stores on the candidate, while our own pass
// behind a library's call writes more than an operation of its own.
bool stores(const rt_device& device, const Operation& op) {
  std::string ignored;
  return device.vendor != nullptr && !device.vendor->kernels(op, 1, &ignored).empty();
}

// The number of post-operations, of at most `most`, that all candidates fuse.
uint32_t fusible(const rt_device& device, const Operation& op, uint32_t most) {
  const Relaid plain(op, [](const rt_tensor_desc&) { return RT_LAYOUT_CANONICAL; });
  const Operation canonical(plain.desc());
  const rt_op_desc part = rt::sdk::with_post_ops(canonical, most);
  const uint32_t in_front = std::min(most, rt::sdk::fusible_post_ops(op));
  return in_front == most || stores(device, Operation(&part)) ? most : in_front;
}

void answer(rt_device& device, const Operation& op, rt_support* support) {
  reference::answer_query(Relaid::canonical(op).desc(), support);
  if (support->level == RT_SUPPORT_REFUSED) return;
  support->tolerance = tolerance_of(op);
  use(device);
  support->post_ops_fused =
      fusible(device, op, std::min(support->post_ops_fused, most_post_ops(op)));
  const rt_op_desc part = rt::sdk::with_post_ops(op, support->post_ops_fused);
  std::string without;
  const std::vector<Candidate> candidates = find_candidates(device, Operation(&part), &without);
  if (!without.empty()) {
    support->level = RT_SUPPORT_EMULATED;
    copy_text(support->reason, without + "; an own, slower kernel does it");
  }
  for (const Candidate& candidate : candidates)
    support->tolerance = std::max(support->tolerance, candidate.tolerance);
  list(candidates, support);
}

void query(rt_device& device, const rt_op_desc* desc, rt_support* support) {
  const Operation op(desc);
  rt::sdk::check_size(support);
  try {
    support->reason_operand = -1;
    answer(device, op, support);
  } catch (const Refusal& refusal) {
    rt::sdk::write_refusal(refusal.operand(), refusal.what(), support);
  } catch (const Error& refusal) {
    if (refusal.code() != RT_ERROR_UNSUPPORTED) throw;
    rt::sdk::write_refusal(-1, refusal.what(), support);
  }
}

std::vector<uint64_t> bytes_of_all(const rt_tensor_desc* const* tensors, uint32_t count) {
  std::vector<uint64_t> bytes;
  for (uint32_t i = 0; i < count; ++i) bytes.push_back(stored_bytes(*tensors[i]));
  return bytes;
}

// What the kernels of a plan cost, for rt_plan_info.
std::vector<rt_kernel_work> work_of(const Operation& op, const Kernel& kernel,
                                    const std::vector<uint64_t>& inputs,
                                    const std::vector<uint64_t>& outputs) {
  std::vector<Work> list = kernel.work;
  if (list.empty()) {
    Work all{op.desc().name};
    for (const uint64_t bytes : inputs) all.bytes += static_cast<double>(bytes);
    double written = 0;
    for (const uint64_t bytes : outputs) written += static_cast<double>(bytes);
    all.bytes += written;
    if (written > 0) list.push_back(all);  // an operation without results queues nothing
  }
  std::vector<rt_kernel_work> work;
  for (const Work& w : list) {
    if (w.bytes <= 0) continue;  // an operation without elements queues nothing
    rt_kernel_work one{};
    one.size = sizeof(one);
    one.bytes = w.bytes;
    one.flops = w.flops;
    copy_text(one.name, w.name);
    work.push_back(one);
  }
  return work;
}

void check_post_ops(const Operation& op) {
  const uint32_t most = most_post_ops(op);
  if (op.post_op_count() <= most) return;
  throw Error(RT_ERROR_UNSUPPORTED,
              format("%s: %u post-operations asked for, %u can be fused; give only those",
                     op.desc().name, op.post_op_count(), most));
}

void check_saved(const Operation& op, const Kernel& kernel) {
  if (kernel.reads_saved == 0) return;
  const rt_plan* forward = op.desc().forward;
  if (forward == nullptr) op.fail("reads what its forward saved; give the forward plan");
  if (forward->kernel.saved_bytes == kernel.reads_saved) return;
  op.fail(format("expects %llu saved bytes, but the given forward plan (%s) saves %llu",
                 static_cast<unsigned long long>(kernel.reads_saved), forward->name.c_str(),
                 static_cast<unsigned long long>(forward->kernel.saved_bytes)));
}

Kernel make_chosen(const rt_device& device, const Operation& op) {
  const uint64_t number = std::max<uint64_t>(op.desc().algorithm, 1);
  std::string without;
  std::vector<Kernel> candidates =
      make(device, op, std::min<uint64_t>(number, kMostCandidates), &without);
  if (number <= candidates.size()) return std::move(candidates[number - 1]);
  op.fail(format("algorithm %llu is not one of the candidates (1 to %zu)",
                 static_cast<unsigned long long>(number), candidates.size()));
}

rt_plan* create(rt_device& device, const rt_op_desc* desc) {
  const Operation op(desc);
  const Relaid plain = Relaid::canonical(op);
  const reference::Kernel definition = reference::make_kernel(Operation(plain.desc()));
  for (uint32_t i = 0; i < op.input_count() + op.output_count(); ++i) {
    const bool in = i < op.input_count();
    if ((in ? op.input(i) : op.output(i - op.input_count())).layout == RT_LAYOUT_ANY) {
      op.fail("a plan needs a layout for every operand");
    }
  }
  use(device);
  auto made = std::make_unique<rt_plan>();
  made->device = &device;
  made->name = desc->name;
  check_post_ops(op);
  made->kernel = make_chosen(device, op);
  check_saved(op, made->kernel);
  made->in_place = definition.in_place;
  made->input_bytes = bytes_of_all(desc->inputs, desc->input_count);
  made->output_bytes = bytes_of_all(desc->outputs, desc->output_count);
  made->work = work_of(op, made->kernel, made->input_bytes, made->output_bytes);
  return made.release();
}

void check_addresses(const rt_plan& plan, const void* const* addresses,
                     const std::vector<uint64_t>& bytes, const char* what) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (addresses[i] != nullptr || bytes[i] == 0) continue;
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("%s: %s %zu is NULL", plan.name.c_str(), what, i));
  }
}

void check_operands(const rt_plan& plan, const rt_launch& launch) {
  if (launch.input_count != plan.input_bytes.size() ||
      launch.output_count != plan.output_bytes.size()) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("%s: launched with %u inputs and %u outputs, the plan has %zu and %zu",
                       plan.name.c_str(), launch.input_count, launch.output_count,
                       plan.input_bytes.size(), plan.output_bytes.size()));
  }
  check_addresses(plan, launch.inputs, plan.input_bytes, "input");
  check_addresses(plan, launch.outputs, plan.output_bytes, "output");
  const bool saves = plan.kernel.saved_bytes + plan.kernel.reads_saved > 0;
  if (launch.workspace == nullptr && plan.kernel.workspace_bytes > 0) {
    throw Error(RT_ERROR_INVALID_ARGUMENT, plan.name + ": the workspace is NULL");
  }
  if (launch.saved == nullptr && saves) {
    throw Error(RT_ERROR_INVALID_ARGUMENT, plan.name + ": the saved buffer is NULL");
  }
}

rt_status layout_bytes(rt_device*, const rt_tensor_desc* tensor, uint64_t* bytes, rt_error* error) {
  return rt::sdk::guard(error, [&] {
    const rt_tensor_desc known = rt::sdk::read_input(tensor);
    expect_known_layout(known);
    *bytes = stored_bytes(known);
  });
}

rt_status name_of_layout(rt_device*, const rt_tensor_desc* tensor, char* name, uint64_t capacity,
                         rt_error* error) {
  return rt::sdk::guard(error, [&] {
    const rt_tensor_desc known = rt::sdk::read_input(tensor);
    expect_known_layout(known);
    if (capacity > 0) std::snprintf(name, capacity, "%s", layout_name(known).c_str());
  });
}

constexpr rt_kernel_api make_table() {
  rt_kernel_api table = rt::sdk::plan_table<query, create>();
  table.layout_bytes = layout_bytes;
  table.layout_name = name_of_layout;
  return table;
}

}  // namespace

constinit const rt_kernel_api kKernelApi = make_table();

}  // namespace backends::gpu

rt_plan_info rt_plan::info() const {
  rt_plan_info value{};
  value.flags = RT_PLAN_DETERMINISTIC | RT_PLAN_CAPTURABLE;
  value.workspace_bytes = kernel.workspace_bytes;
  value.saved_bytes = kernel.saved_bytes;
  std::copy(in_place.begin(), in_place.end(), value.in_place);
  rt::sdk::copy_text(value.implementation, kernel.implementation);
  value.work = work.data();
  value.work_count = static_cast<uint32_t>(work.size());
  return value;
}

void rt_plan::launch(rt_stream& stream, const rt_launch& given) {
  backends::gpu::check_operands(*this, given);
  backends::gpu::use(*device);
  kernel.run({given.inputs, given.outputs, given.workspace, given.saved, stream.native()});
}
