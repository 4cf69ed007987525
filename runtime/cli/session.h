// Configuration -> registry, device, data and trainer: what every command that computes opens
// first.
#ifndef RUNTIME_CLI_SESSION_H_
#define RUNTIME_CLI_SESSION_H_

#include <memory>
#include <string>

#include "plugins/host/registry.h"
#include "runtime/config/config.h"
#include "runtime/data/open.h"
#include "runtime/train/trainer.h"

namespace runtime::cli {

struct Session {
  config::Config config;
  plugins::host::Registry registry;
  std::string choice;  // which device "auto" took, "" if it was named
  std::shared_ptr<plugins::host::Device> device;
  data::DatasetPair data;
  std::unique_ptr<train::Trainer> trainer;

  explicit Session(config::Config config);
};

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_SESSION_H_
