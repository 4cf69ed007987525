// Copies as many slots of a table as both sides know, and refuses tables with missing ones.
#include "plugins/host/tables.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "plugins/host/error.h"

namespace plugins::host {
namespace {

using Slot = void (*)();

struct SlotSpec {
  const char* name;
  bool mandatory = true;
};

constexpr SlotSpec kDeviceSlots[] = {{"count"},
                                     {"properties"},
                                     {"open"},
                                     {"close"},
                                     {"allocate"},
                                     {"free"},
                                     {"stream_create"},
                                     {"stream_destroy"},
                                     {"stream_synchronize"},
                                     {"copy"},
                                     {"fill"},
                                     {"event_create"},
                                     {"event_destroy"},
                                     {"event_record"},
                                     {"event_wait"},
                                     {"event_synchronize"},
                                     {"event_query"},
                                     {"event_elapsed"},
                                     {"memory_info"},
                                     {"utilisation", false}};
constexpr SlotSpec kKernelSlots[] = {{"query"},  {"create"},       {"destroy"},    {"info"},
                                     {"launch"}, {"layout_bytes"}, {"layout_name"}};
constexpr SlotSpec kCommunicatorSlots[] = {
    {"properties"},        {"capabilities"}, {"create"},       {"split"},
    {"destroy"},           {"group_begin"},  {"group_end"},    {"enqueue"},
    {"work_poll"},         {"work_wait"},    {"work_destroy"}, {"abort"},
    {"asynchronous_error"}};

constexpr SlotSpec kCaptureSlots[] = {{"begin"}, {"end"}, {"replay"}, {"destroy"}};
constexpr SlotSpec kNativeSlots[] = {{"device"}, {"stream"}, {"event"}};
constexpr SlotSpec kReaderSlots[] = {{"formats"}, {"open"}, {"info"}, {"read"}, {"close"}};
constexpr SlotSpec kOperationsSlots[] = {{"specs"}};

// Every table begins with its size and version, followed by function pointers.
struct TableHeader {
  uint32_t size;
  uint32_t version;
};

// `slots` are those of the first release, whose table has `least_size` bytes. Slots that were added
// later are optional: the host checks for null where it calls them.
struct Interface {
  const char* name;
  uint32_t version;
  std::span<const SlotSpec> slots;
  uint32_t least_size;
};

constexpr Interface kDevice{RT_INTERFACE_DEVICE, RT_DEVICE_API_VERSION, kDeviceSlots,
                            RT_DEVICE_API_SIZE_V1};
constexpr Interface kKernel{RT_INTERFACE_KERNEL, RT_KERNEL_API_VERSION, kKernelSlots,
                            RT_KERNEL_API_SIZE_V1};
constexpr Interface kCommunicator{RT_INTERFACE_COMMUNICATOR, RT_COMMUNICATOR_API_VERSION,
                                  kCommunicatorSlots, RT_COMMUNICATOR_API_SIZE_V1};
constexpr Interface kCapture{RT_INTERFACE_CAPTURE, RT_CAPTURE_API_VERSION, kCaptureSlots,
                             RT_CAPTURE_API_SIZE_V1};
constexpr Interface kNative{RT_INTERFACE_NATIVE, RT_NATIVE_API_VERSION, kNativeSlots,
                            RT_NATIVE_API_SIZE_V1};
constexpr Interface kReader{RT_INTERFACE_READER, RT_READER_API_VERSION, kReaderSlots,
                            RT_READER_API_SIZE_V1};
constexpr Interface kOperations{RT_INTERFACE_OPERATIONS, RT_OPERATIONS_API_VERSION,
                                kOperationsSlots, RT_OPERATIONS_API_SIZE_V1};

[[noreturn]] void refuse(const std::string& who, const Interface& interface,
                         const std::string& reason) {
  throw Error(RT_ERROR_VERSION, who + ": table " + interface.name + " " + reason +
                                    "; rebuild the plugin with the headers of this runtime");
}

void check_header(const TableHeader& header, const Interface& interface, const std::string& who) {
  if (header.version != interface.version) {
    refuse(who, interface,
           "was asked for in version " + std::to_string(interface.version) + " and says version " +
               std::to_string(header.version));
  }
  if (header.size < interface.least_size) {
    refuse(who, interface,
           "has " + std::to_string(header.size) + " bytes; version " +
               std::to_string(interface.version) + " has at least " +
               std::to_string(interface.least_size));
  }
}

// `table` is a copy of the plugin's table of C functions with the size that the host's headers
// define; functions that the plugin's table is too short for are null.
void check_slots(const std::byte* table, const Interface& interface, const std::string& who) {
  for (std::size_t i = 0; i < interface.slots.size(); ++i) {
    Slot slot;
    std::memcpy(&slot, table + sizeof(TableHeader) + i * sizeof(Slot), sizeof(slot));
    if (slot == nullptr && interface.slots[i].mandatory) {
      refuse(who, interface, std::string("has an empty slot '") + interface.slots[i].name + "'");
    }
  }
}

const void* ask(const rt_plugin& plugin, const Interface& interface, const std::string& who) {
  try {
    return plugin.get_interface(plugin.self, interface.name, interface.version);
  } catch (...) {
    throw Error(RT_ERROR_INTERNAL, who + ": get_interface(\"" + interface.name +
                                       "\") let an exception cross the C border; plugins must "
                                       "answer with a table or NULL");
  }
}

// Returns nullopt if the plugin does not offer the table.
template <typename Table>
std::optional<Table> adopt(const rt_plugin& plugin, const Interface& interface,
                           const std::string& who) {
  const void* offered = ask(plugin, interface, who);
  if (offered == nullptr) return std::nullopt;
  TableHeader header;
  std::memcpy(&header, offered, sizeof(header));
  check_header(header, interface, who);
  Table table{};
  std::memcpy(&table, offered, std::min<std::size_t>(header.size, sizeof(Table)));
  table.size = std::min<uint32_t>(header.size, sizeof(Table));
  check_slots(reinterpret_cast<const std::byte*>(&table), interface, who);
  return table;
}

constexpr bool lists_all(const Interface& interface) {
  return interface.least_size == sizeof(TableHeader) + interface.slots.size() * sizeof(Slot);
}
static_assert(lists_all(kDevice) && lists_all(kKernel) && lists_all(kCommunicator) &&
              lists_all(kCapture) && lists_all(kNative) && lists_all(kReader) &&
              lists_all(kOperations));

}  // namespace

Tables adopt_tables(const rt_plugin& plugin, const std::string& who) {
  Tables tables;
  tables.device = adopt<rt_device_api>(plugin, kDevice, who);
  tables.kernel = adopt<rt_kernel_api>(plugin, kKernel, who);
  tables.communicator = adopt<rt_communicator_api>(plugin, kCommunicator, who);
  tables.capture = adopt<rt_capture_api>(plugin, kCapture, who);
  tables.native = adopt<rt_native_api>(plugin, kNative, who);
  tables.reader = adopt<rt_reader_api>(plugin, kReader, who);
  tables.operations = adopt<rt_operations_api>(plugin, kOperations, who);
  if (!tables.device && !tables.kernel && !tables.communicator && !tables.reader &&
      !tables.operations) {
    throw Error(RT_ERROR_UNAVAILABLE,
                who +
                    ": offers none of the interfaces rt.device, rt.kernel, rt.communicator, "
                    "rt.operations, rt.reader in a version that this host knows");
  }
  if (tables.kernel && !tables.device) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                who + ": offers rt.kernel without rt.device; kernels need a device to run on");
  }
  return tables;
}

}  // namespace plugins::host
