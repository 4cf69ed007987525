// Translates calls of plugins' key-value functions to a store with a prefix.
#include "runtime/launch/key_value.h"

#include "plugins/host/error.h"

namespace runtime::launch {
namespace {

template <class Action>
auto translated(const Action& action) {
  try {
    return action();
  } catch (const StoreTimeout& error) {
    throw plugins::host::Error(RT_ERROR_TIMEOUT, error.what());
  } catch (const CommunicationError& error) {
    throw plugins::host::Error(RT_ERROR_COMMUNICATION, error.what());
  }
}

}  // namespace

void offer_store(plugins::host::HostServices& services, std::shared_ptr<Store> store,
                 const std::string& prefix) {
  services.kv_set = [store, prefix](const std::string& key, const std::string& value) {
    translated([&] { store->set(prefix + "/" + key, value); });
  };
  services.kv_get = [store, prefix](const std::string& key, std::chrono::nanoseconds timeout) {
    return translated([&] { return store->get(prefix + "/" + key, timeout); });
  };
}

}  // namespace runtime::launch
