// Asks the host for tables of further functions.
#ifndef RT_SDK_HOST_H_
#define RT_SDK_HOST_H_

#include <cstddef>

#include "rt/host_process.h"
#include "rt/plugin.h"

namespace rt::sdk {

// The name, the version and the least size of a table of the host.
template <typename Table>
struct HostTable;
// The table of rt/host_process.h.
template <>
struct HostTable<rt_host_process_api> {
  static constexpr const char* kName = RT_HOST_INTERFACE_PROCESS;
  static constexpr uint32_t kVersion = RT_HOST_PROCESS_API_VERSION;
  static constexpr uint32_t kSizeV1 = RT_HOST_PROCESS_API_SIZE_V1;
};

// Returns the host's table, or nullptr if the host does not offer it. The table is valid as long as
// the host. Slots may be null, and slots beyond the table's `size` must not be read.
template <typename Table>
const Table* host_interface(const rt_host& host) {
  constexpr std::size_t kEnd = offsetof(rt_host, get_interface) + sizeof(host.get_interface);
  if (host.size < kEnd || host.get_interface == nullptr) return nullptr;
  const auto* table = static_cast<const Table*>(
      host.get_interface(host.context, HostTable<Table>::kName, HostTable<Table>::kVersion));
  return table != nullptr && table->size >= HostTable<Table>::kSizeV1 ? table : nullptr;
}

}  // namespace rt::sdk

#endif  // RT_SDK_HOST_H_
