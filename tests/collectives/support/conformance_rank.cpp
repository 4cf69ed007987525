// conformance_rank <plugin library> [device=<plugin library>] [<key>=<value>...]: one rank of the
// communicator checks, in device memory if a device is named; exits with 1 if a check fails. Tests
// start it with Job.
#include <cstdio>
#include <string>

#include "plugins/conformance/communicator.h"
#include "tests/collectives/support/memory.h"
#include "tests/collectives/support/rank.h"

namespace {

int run(int argc, char** argv) {
  namespace conformance = plugins::conformance;
  std::map<std::string, std::string> options;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    options[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  collectives::testing::keep_freed_memory();
  const auto place = collectives::testing::rank_place();
  std::shared_ptr<plugins::host::Device> device;
  if (const auto named = options.extract("device"); !named.empty())
    device = plugins::host::Device::open(plugins::host::Plugin::load(named.mapped(), {}), 0);
  const auto communicator =
      collectives::testing::join(place, argv[1], options, std::chrono::seconds(60), device);
  const auto summary = conformance::run_communicator_cases(
      {communicator, place.rank, place.size, device}, conformance::communicator_cases());
  std::printf("rank %d of %d: %s\n", place.rank, place.size, summary.text().c_str());
  return summary.failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc >= 2) return run(argc, argv);
    std::fprintf(stderr, "usage: %s <plugin library> [<key>=<value>...]\n", argv[0]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  return 2;
}
