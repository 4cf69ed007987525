// `runtime bench CONFIG --data`: how fast batches are made, without a step that uses them.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/launch/job.h"
#include "runtime/step/ranks.h"
#include "runtime/train/formatted.h"
#include "runtime/train/open.h"
#include "tools/bench/bench.h"

namespace runtime::bench {
namespace {

// Takes batches as fast as they come. Those that are prepared while the loader starts do not count.
double seconds_of(data::Loader& loader, int64_t prefetch, int64_t batches) {
  using Clock = std::chrono::steady_clock;
  for (int64_t i = 0; i <= prefetch; ++i) loader.next();
  const auto begin = Clock::now();
  for (int64_t i = 0; i < batches; ++i) loader.next();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void bench_loader(const launch::Rank& rank, const BenchArguments& arguments) {
  const config::Config config = step::resolve_ranks(rank.config, 1);
  const data::DatasetPair data =
      train::open_data(config, std::getenv("RUNTIME_DATA_PATH"), rank.registry.get());
  data::LoaderOptions options = train::train_loader_options(config);
  options.last_batch = data::LastBatch::kDrop;  // so that all batches are of one size
  data::Loader loader(data.train, options);
  const double seconds = seconds_of(loader, options.prefetch, arguments.steps);
  const auto batches = static_cast<double>(arguments.steps);
  const double rate = batches * static_cast<double>(options.batch_size) / seconds;
  const int workers = options.prefetch > 0 ? options.workers : 0;
  if (!arguments.json) {
    say("{}: {:.3f} ms a batch of {} (mean of {}), {} samples/s, {} worker{}, prefetch {}\n",
        data.train->description(), seconds / batches * 1e3, options.batch_size, arguments.steps,
        train::rate_text(rate), workers, workers == 1 ? "" : "s", options.prefetch);
    return;
  }
  nlohmann::ordered_json j;
  j["config"] = config.name;
  j["data"] = data.train->description();
  j["batch_size"] = options.batch_size;
  j["batches"] = arguments.steps;
  j["workers"] = workers;
  j["prefetch"] = options.prefetch;
  j["batch_ms"] = seconds / batches * 1e3;
  j["samples_per_second"] = rate;
  std::cout << j.dump() << std::endl;
}

}  // namespace

// The batches are those of one rank, whatever ranks train the model.
void run_data_bench(const BenchArguments& arguments) {
  config::Config config = arguments.config.load();
  config.launch.ranks = 1;
  config.parallelism = {};
  launch::run_ranks(config, cli::host_services(), {}, [&](launch::Rank& rank) {
    if (rank.main()) bench_loader(rank, arguments);
  });
}

}  // namespace runtime::bench
