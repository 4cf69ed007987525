// Runs the reference kernels on the streams of a simulated device, wrong or late where an option
// says so.
#include "rt/sdk/kernel_table.h"

#include <algorithm>

#include "backends/simulated/objects.h"
#include "rt/sdk/answer.h"
#include "rt/sdk/definitions.h"
#include "rt/sdk/foreign_layout.h"

namespace backends::simulated {
namespace {

using rt::sdk::Definition;
using rt::sdk::format;

bool lists(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_in_base_set(const rt_op_desc& op) {
  const bool plain = op.name != std::string_view(RT_OP_SGD) || op.output_count == 1;
  return plain && rt::sdk::has_trait(op.name, Definition::kMandatory | Definition::kBase);
}

// Whether the operation is an optimizer that also writes the parameters in 16 bits.
bool writes_narrow(const rt_op_desc& op) {
  const Definition* const row = rt::sdk::find_definition(op.name);
  return row != nullptr && row->outputs.find("narrow") != nullptr &&
         rt::sdk::is_sixteen_bit(op.outputs[op.output_count - 1]->dtype);
}

// The option because of which the device refuses the operation; nullptr if it does not.
const char* refused_by(const Device& device, const rt_op_desc& op) {
  const std::vector<std::string>& refuse = device.options().refuse;
  if (lists(refuse, op.name) || (lists(refuse, "narrow") && writes_narrow(op))) return "refuse";
  return device.options().base_set && !is_in_base_set(op) ? "base_set" : nullptr;
}

bool varies(const Device& device, const rt_op_desc& op) {
  return lists(device.options().varying, op.name);
}

// The host may let a device choose the layout only of those operands that operations.md lists.
void expect_canonical_rest(const rt::sdk::Operation& op) {
  const auto expect = [&](const rt_tensor_desc& tensor, const char* kind, uint32_t i) {
    if (tensor.layout != RT_LAYOUT_ANY || rt::sdk::takes_foreign_layout(op.name(), tensor.rank))
      return;
    op.fail(format("%s %u has RT_LAYOUT_ANY, but stays canonical by operations.md", kind, i));
  };
  for (uint32_t i = 0; i < op.input_count(); ++i) expect(op.input(i), "input", i);
  for (uint32_t i = 0; i < op.output_count(); ++i) expect(op.output(i), "output", i);
}

// One for each algorithm of the device, all of them the same kernel.
void list_algorithms(const std::vector<int64_t>& algorithm_ns, const rt::sdk::Operation& op,
                     rt_support* support) {
  std::vector<rt_candidate> candidates;
  for (size_t k = 1; k <= algorithm_ns.size(); ++k)
    candidates.push_back(rt::sdk::canonical_candidate(op, "simulated", k));
  rt::sdk::list_candidates(candidates, support);
}

void query(rt_device& device, const rt_op_desc* op, rt_support* support) {
  expect_canonical_rest(rt::sdk::Operation(op));
  reference::answer_query(op, support);
  support->tolerance = device.options().claim;
  support->deterministic = varies(device, *op) ? 0 : 1;
  if (device.has_clock() && support->level != RT_SUPPORT_REFUSED)
    list_algorithms(device.options().algorithm_ns, rt::sdk::Operation(op), support);
  const char* const option = refused_by(device, *op);
  if (option == nullptr) return;
  support->level = RT_SUPPORT_REFUSED;
  support->candidate_count = 0;
  rt::sdk::copy_text(support->reason, format("%s is refused by the option '%s'", op->name, option));
}

// One kernel that reads and writes every operand once.
rt_kernel_work work_of(const reference::Planned& planned) {
  rt_kernel_work work{};
  work.size = sizeof(work);
  for (const uint64_t bytes : planned.input_bytes()) work.bytes += static_cast<double>(bytes);
  for (const uint64_t bytes : planned.output_bytes()) work.bytes += static_cast<double>(bytes);
  rt::sdk::copy_text(work.name, planned.name());
  return work;
}

rt_plan* create(rt_device& device, const rt_op_desc* op) {
  rt::sdk::check_input(op);
  const reference::Planned* forward = op->forward ? op->forward->planned.get() : nullptr;
  const std::vector<int64_t>& algorithm_ns = device.options().algorithm_ns;
  rt_op_desc same = rt::sdk::read_input(op);  // of the only kernel
  const uint64_t algorithm = std::max<uint64_t>(same.algorithm, rt::sdk::kOnlyAlgorithm);
  const bool offered = algorithm <= algorithm_ns.size();
  if (offered) same.algorithm = rt::sdk::kOnlyAlgorithm;
  auto planned = std::make_shared<const reference::Planned>(&same, forward);
  if (const char* const option = refused_by(device, *op)) {
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                         format("%s is refused by the option '%s'", op->name, option));
  }
  const bool varying = varies(device, *op);
  if (varying && (op->flags & RT_OP_DETERMINISTIC) != 0) {
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                         format("a deterministic %s; the option 'varying' forbids it", op->name));
  }
  const rt_kernel_work work = work_of(*planned);
  const char* const label = same.label;
  return new rt_plan{std::move(planned),
                     std::make_shared<const std::string>(label == nullptr ? "" : label), varying,
                     work, offered ? algorithm_ns[algorithm - 1] : 0};
}

}  // namespace

constinit const rt_kernel_api kKernelTable = rt::sdk::plan_table<query, create>();

}  // namespace backends::simulated

rt_plan_info rt_plan::info() const {
  rt_plan_info known = planned->info();
  known.flags |= RT_PLAN_CAPTURABLE;
  if (varying) known.flags &= ~RT_PLAN_DETERMINISTIC;
  known.work = &work;
  known.work_count = 1;
  return known;
}

void rt_plan::launch(rt_stream& stream, const rt_launch& launch) {
  planned->check_launch(&launch);
  if (stream.device().options().refuse_launch == planned->name()) {
    throw rt::sdk::Error(RT_ERROR_DEVICE, "refused by the option 'refuse_launch'");
  }
  backends::simulated::LaunchTask task{};
  task.planned = planned;
  task.label = label;
  std::copy_n(launch.inputs, launch.input_count, task.inputs.begin());
  std::copy_n(launch.outputs, launch.output_count, task.outputs.begin());
  task.workspace = launch.workspace;
  task.saved = launch.saved;
  task.ns = ns;
  task.loaded = loaded;
  stream.submit(std::move(task));
}
