// Bells for the keys of a store (watch/bell.h).
#ifndef RUNTIME_LAUNCH_BELLS_H_
#define RUNTIME_LAUNCH_BELLS_H_

#include <memory>
#include <string>

#include "plugins/host/descriptor.h"
#include "runtime/watch/bell.h"

namespace runtime::launch {

class Store;

// Asks the store for the key five times a second, because nothing tells when it is set.
std::unique_ptr<watch::Bell> asking_bell(Store& store, const std::string& key);
// Asks the store for the key once `event` is readable. Who sets the key makes it so afterwards, and
// nobody reads it.
std::unique_ptr<watch::Bell> event_bell(Store& store, const std::string& key,
                                        plugins::host::Descriptor event);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_BELLS_H_
