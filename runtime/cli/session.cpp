#include "runtime/cli/session.h"

#include <cstdlib>
#include <future>

#include "runtime/cli/commands.h"
#include "runtime/train/open.h"

namespace runtime::cli {

Session::Session(config::Config c)
    : config(std::move(c)), registry(train::plugin_search_path(config), host_services()) {
  // Reading the data and opening the device take about as long, and do not need each other.
  std::future<data::DatasetPair> reading = std::async(std::launch::async, [this] {
    return train::open_data(config, std::getenv("RUNTIME_DATA_PATH"));
  });
  device = train::open_device(config, registry, 0, &choice);
  data = reading.get();
  trainer = std::make_unique<train::Trainer>(config, data.train->spec(), device,
                                             train::compile_options(config));
}

}  // namespace runtime::cli
