// Compares the rows of a communicator's capabilities with a call and its memory.
#include "runtime/exec/comm_access.h"

#include <algorithm>

#include "runtime/error.h"

namespace runtime::exec {
namespace {

constexpr uint32_t kHostMemory = 1u << RT_MEMORY_PINNED_HOST,
                   kDeviceMemory = 1u << RT_MEMORY_DEVICE;

rt_collective sum_of_floats() {
  return plugins::host::make_collective(RT_ALL_REDUCE, RT_FLOAT32, nullptr, nullptr, 1, RT_SUM);
}

}  // namespace

CommAccess::CommAccess(const plugins::host::Communicator& communicator)
    : rows_(plugins::host::list_capabilities(communicator.plugin())),
      claimed_(plugins::host::communicator_properties(communicator.plugin()).device_plugin) {
  reads_host_ = std::any_of(rows_.begin(), rows_.end(),
                            [](const auto& row) { return (row.memory_kinds & kHostMemory) != 0; });
  reads_device_ =
      communicator.device() != nullptr && communicator.device()->plugin().name() == claimed_;
  if (reads_host_ || reads_device_) return;
  throw DeviceError("the communicator " + communicator.plugin().name() +
                    " claims no collective on memory of the host" +
                    (claimed_.empty() ? "" : " and works with devices of " + claimed_ + " only") +
                    ", expected at least one row of its capabilities with RT_MEMORY_PINNED_HOST; "
                    "choose another comm.backend");
}

// `memory`: a mask of 1 << RT_MEMORY_*, one of which the row must have.
const rt_comm_capability* CommAccess::row_of(const rt_collective& call, uint32_t memory) const {
  for (const rt_comm_capability& row : rows_) {
    const bool reduces = call.reduction == 0 || (row.reductions >> call.reduction & 1) != 0;
    if (row.collective == call.kind && (row.dtypes & RT_DTYPE_BIT(call.dtype)) != 0 && reduces &&
        (row.memory_kinds & memory) != 0)
      return &row;
  }
  return nullptr;
}

bool CommAccess::is_own(const plugins::host::Device& device) const {
  return reads_device_ && device.plugin().name() == claimed_;
}

Access CommAccess::of(const rt_collective& call, const plugins::host::Device& device) const {
  if (device.host_memory()) return Access::kHost;
  const rt_comm_capability* row = is_own(device) ? row_of(call, kDeviceMemory) : nullptr;
  if (row == nullptr) return Access::kStaged;
  return (row->flags & RT_COMM_ON_STREAM) != 0 ? Access::kStream : Access::kDevice;
}

bool CommAccess::works_in_place(const rt_collective& call) const {
  const rt_comm_capability* row = row_of(call, 1u << call.memory_kind);
  return row != nullptr && (row->flags & RT_COMM_IN_PLACE) != 0;
}

bool CommAccess::stages(const plugins::host::Device& device) const {
  return of(sum_of_floats(), device) == Access::kStaged;
}

bool CommAccess::on_stream() const {
  return reads_device_ && std::any_of(rows_.begin(), rows_.end(), [](const auto& row) {
           return (row.flags & RT_COMM_ON_STREAM) != 0;
         });
}

bool CommAccess::has_choice() const {
  return reads_host_ && !claimed_.empty() && row_of(sum_of_floats(), kDeviceMemory) != nullptr;
}

}  // namespace runtime::exec
