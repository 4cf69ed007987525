// Calls the communicator table, and turns statuses into exceptions that name the call.
#include "plugins/host/communicator.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "plugins/host/call.h"
#include "plugins/host/limits.h"
#include "plugins/host/options.h"
#include "plugins/host/release.h"

namespace plugins::host {
namespace {

const rt_communicator_api& communicators_of(const Plugin& plugin) {
  if (plugin.communicator_api() == nullptr) {
    throw Error(RT_ERROR_UNAVAILABLE,
                "plugin '" + plugin.name() + "' offers no communicators; name one that does");
  }
  return *plugin.communicator_api();
}

// The table with the native handles of the device. A communicator of minor version 0 would refuse
// options with a field that it does not know.
const rt_native_api* native_for(const Plugin& plugin, const CommunicatorOptions& options) {
  if (plugin.minor() == 0 || options.device == nullptr) return nullptr;
  return options.device->plugin().native_api();
}

}  // namespace

Work::Work(std::shared_ptr<Communicator> communicator, rt_work* work)
    : communicator_(std::move(communicator)),
      work_(work, {communicator_, "work_destroy",
                   communicator_->plugin().communicator_api()->work_destroy}) {}

bool Work::poll() {
  const Plugin& plugin = communicator_->plugin();
  return call_ready(
      [&] { return plugin.name() + ": poll a collective"; },
      [&](rt_error* e) { return plugin.communicator_api()->work_poll(work_.get(), e); });
}

void Work::wait(std::chrono::nanoseconds timeout) {
  const Plugin& plugin = communicator_->plugin();
  call([&] { return plugin.name() + ": wait for a collective"; },
       [&](rt_error* e) {
         return plugin.communicator_api()->work_wait(work_.get(), timeout.count(), e);
       });
}

rt_collective make_collective(int32_t kind, rt_dtype dtype, const void* send, void* receive,
                              uint64_t count, int32_t reduction) {
  rt_collective collective{};
  collective.size = sizeof(collective);
  collective.kind = kind;
  collective.dtype = dtype;
  collective.reduction = reduction;
  collective.send = send;
  collective.receive = receive;
  collective.count = count;
  collective.peer = -1;
  collective.memory_kind = RT_MEMORY_PINNED_HOST;
  return collective;
}

std::vector<rt_comm_capability> list_capabilities(const Plugin& plugin) {
  const rt_communicator_api& api = communicators_of(plugin);
  const auto what = [&] { return plugin.name() + ": capabilities"; };
  uint32_t count = 0;
  call(what, [&](rt_error* e) { return api.capabilities(plugin.self(), nullptr, &count, e); });
  check_count(count, kMaxCapabilities, what());
  // The host says in the first row how far apart the rows are. Plugins of minor version 0 do not
  // read that: their rows are as far apart as in the first release.
  const uint32_t stride =
      plugin.minor() == 0 ? RT_COMM_CAPABILITY_SIZE_V1 : uint32_t{sizeof(rt_comm_capability)};
  std::vector<rt_comm_capability> room(count);  // at least `count` times the stride
  auto* bytes = reinterpret_cast<std::byte*>(room.data());
  for (uint32_t i = 0; i < count; ++i)
    std::memcpy(bytes + std::size_t{i} * stride, &stride, sizeof(stride));
  uint32_t filled = count;
  call(what, [&](rt_error* e) { return api.capabilities(plugin.self(), room.data(), &filled, e); });
  std::vector<rt_comm_capability> rows(std::min(count, filled));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(&rows[i], bytes + i * stride, stride);
    rows[i].size = sizeof(rt_comm_capability);
  }
  return rows;
}

rt_comm_properties communicator_properties(const Plugin& plugin) {
  const rt_communicator_api& api = communicators_of(plugin);
  rt_comm_properties properties{};
  properties.size = sizeof(properties);
  const auto what = [&] { return plugin.name() + ": communicator properties"; };
  call(what, [&](rt_error* e) { return api.properties(plugin.self(), &properties, e); });
  check_properties(properties, what());
  return properties;
}

std::shared_ptr<Communicator> Communicator::create(std::shared_ptr<Plugin> plugin,
                                                   const CommunicatorOptions& options) {
  const rt_communicator_api& api = communicators_of(*plugin);
  const COptions list(options.options);
  const rt_comm_options c{.size = sizeof(rt_comm_options),
                          .rank = options.rank,
                          .world_size = options.world_size,
                          .local_rank = options.local_rank,
                          .prefix = options.prefix.c_str(),
                          .interface = options.interface.c_str(),
                          .device = options.device ? options.device->get() : nullptr,
                          .timeout_ns = options.timeout.count(),
                          .options = list.data(),
                          .option_count = list.size(),
                          .reserved = 0,
                          .native = native_for(*plugin, options)};
  const auto what = [&] {
    return plugin->name() + ": rank " + std::to_string(options.rank) + " of " +
           std::to_string(options.world_size) + " joins communicator '" + options.prefix + "'";
  };
  rt_communicator* communicator = nullptr;
  call(what, [&](rt_error* e) { return api.create(plugin->self(), &c, &communicator, e); });
  if (communicator == nullptr) {
    throw Error(RT_ERROR_INTERNAL, what() + ": answered RT_OK without a communicator");
  }
  return std::shared_ptr<Communicator>(
      new Communicator(std::move(plugin), options.device, options.rank, communicator));
}

Communicator::Communicator(std::shared_ptr<Plugin> plugin, std::shared_ptr<Device> device,
                           int32_t rank, rt_communicator* communicator)
    : plugin_(std::move(plugin)),
      device_(std::move(device)),
      rank_(rank),
      communicator_(communicator) {}

Communicator::~Communicator() {
  call_release(*plugin_, "destroy", [&] { api().destroy(communicator_); });
}

std::string Communicator::describe(const char* what) const {
  return plugin_->name() + ": rank " + std::to_string(rank_) + ": " + what;
}

std::shared_ptr<Communicator> Communicator::split(int32_t color, int32_t key,
                                                  std::chrono::nanoseconds timeout) {
  rt_communicator* result = nullptr;
  call([&] { return describe("split"); },
       [&](rt_error* e) {
         return api().split(communicator_, color, key, timeout.count(), &result, e);
       });
  if (color >= 0 && result == nullptr) {
    throw Error(RT_ERROR_INTERNAL, describe("split") + " answered RT_OK without a communicator");
  }
  if (result == nullptr) return nullptr;
  return std::shared_ptr<Communicator>(new Communicator(plugin_, device_, rank_, result));
}

Work Communicator::enqueue(const rt_collective& collective) {
  rt_work* work = nullptr;
  call([&] { return describe("enqueue a collective"); },
       [&](rt_error* e) { return api().enqueue(communicator_, &collective, &work, e); });
  if (work == nullptr) {
    throw Error(RT_ERROR_INTERNAL, describe("enqueue answered RT_OK without a work"));
  }
  return Work(shared_from_this(), work);
}

void Communicator::abort() {
  call([&] { return describe("abort"); },
       [&](rt_error* e) { return api().abort(communicator_, e); });
}

std::optional<Error> Communicator::asynchronous_error() {
  try {
    call([&] { return describe("asynchronous error"); },
         [&](rt_error* e) { return api().asynchronous_error(communicator_, e); });
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

CommunicatorGroup::CommunicatorGroup(std::shared_ptr<Communicator> communicator)
    : communicator_(std::move(communicator)) {
  call([&] { return communicator_->describe("begin a group"); },
       [&](rt_error* e) { return communicator_->api().group_begin(communicator_->get(), e); });
}

CommunicatorGroup::~CommunicatorGroup() {
  if (!open_) return;
  call_release(communicator_->plugin(), "group_end", [&] { end(); });
}

void CommunicatorGroup::end() {
  open_ = false;
  call([&] { return communicator_->describe("end a group"); },
       [&](rt_error* e) { return communicator_->api().group_end(communicator_->get(), e); });
}

}  // namespace plugins::host
