// Makes a store available to the plugins.
#ifndef RUNTIME_LAUNCH_KEY_VALUE_H_
#define RUNTIME_LAUNCH_KEY_VALUE_H_

#include <memory>
#include <string>

#include "plugins/host/plugin.h"
#include "runtime/launch/store.h"

namespace runtime::launch {

// Sets kv_set and kv_get of `services`, whose keys are kept under `prefix` (see join()). Both throw
// plugins::host::Error: RT_ERROR_TIMEOUT for a key that was not set in time, RT_ERROR_COMMUNICATION
// for other failures.
void offer_store(plugins::host::HostServices& services, std::shared_ptr<Store> store,
                 const std::string& prefix);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_KEY_VALUE_H_
