// Measures the forward pass alone, as `evaluate` and `predict` run it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "runtime/median.h"
#include "runtime/train/formatted.h"
#include "runtime/train/open.h"
#include "tools/bench/bench.h"

namespace runtime::bench {

namespace {

// Makes a batch of `rows` samples of the training set, which begins anew where it has too few.
data::Batch make_batch(const Session& s, int64_t rows) {
  data::LoaderOptions options = train::validation_loader_options(s.config);
  options.batch_size = std::min(rows, s.data.train->size());
  data::Loader loader(s.data.train, options);
  const data::Batch& samples = loader.next();
  data::Batch batch = data::zero_batch(s.data.train->spec(), rows);
  for (size_t i = 0; i < batch.features.size(); ++i)
    batch.features[i] = samples.features[i % samples.features.size()];
  return batch;
}

// Returns the median seconds from features in host memory to outputs in host memory.
double measure(Session& s, const data::Batch& batch, int64_t steps) {
  std::vector<double> times;
  for (int64_t i = 0; i < steps + kWarmUp; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    s.trainer->outputs(batch);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (i >= kWarmUp) times.push_back(elapsed.count());
  }
  return median(times);
}

void print(const Session& s, const BenchArguments& arguments, const train::StepProgram& step,
           int64_t rows, double seconds) {
  const double samples = static_cast<double>(rows) / seconds;
  const int64_t labels = s.data.train->spec().labels;  // above 1: samples are sequences of tokens
  const double tokens = samples * static_cast<double>(labels);
  const double rate = graph::step_flops(step.graph(), 1) / seconds;
  if (!arguments.json) {
    return say(
        "{} on {}, inference: {:.3f} ms a batch of {} (median of {}), {} samples/s{}, {:.1f} "
        "GFLOP/s, peak memory {:.0f} MiB of the process\n",
        s.config.name, s.device->id(), seconds * 1e3, rows, arguments.steps,
        train::rate_text(samples),
        labels > 1 ? fmt::format(" ({} tokens/s)", train::rate_text(tokens)) : "", rate / 1e9,
        static_cast<double>(peak_memory_bytes()) / (1 << 20));
  }
  nlohmann::ordered_json j;
  j["config"] = s.config.name;
  j["device"] = s.device->id();
  j["inference"] = true;
  j["batch_size"] = rows;
  j["steps"] = arguments.steps;
  j["step_ms_median"] = seconds * 1e3;
  j["samples_per_second"] = samples;
  if (labels > 1) j["tokens_per_second"] = tokens;
  j["flops_per_second"] = rate;
  j["peak_memory_bytes"] = peak_memory_bytes();
  j["operations"] = step.graph().nodes.size();
  j["recorded_operations"] = step.program->recorded().operations;
  std::cout << j.dump() << std::endl;
}

void bench_inference(Session& s, const BenchArguments& arguments) {
  s.trains = false;
  if (s.rank.collectives != nullptr) {
    throw ConfigurationError("bench --inference measures one rank, but the job has " +
                             std::to_string(s.rank.place.world_size) +
                             "; --set launch.ranks=1 and start it without a launcher");
  }
  const int64_t rows = arguments.batch > 0 ? arguments.batch : s.config.training.global_batch_size;
  const data::Batch batch = make_batch(s, rows);
  train::StepProgram& step =
      s.programs->compiled(s.programs->setup().whole(step::Purpose::kEvaluation, rows));
  session::print_notes(*s.programs);
  if (arguments.layers) {
    return print_layers(s, step, arguments.steps, [&]() -> const data::Batch& { return batch; });
  }
  print(s, arguments, step, rows, measure(s, batch, arguments.steps));
}

}  // namespace

void run_inference_bench(const BenchArguments& arguments, Outcome& outcome) {
  outcome.exit_code =
      session::run_sessions(arguments.config.load(), cli::host_services(), outcome.arguments,
                            [&](Session& s) { bench_inference(s, arguments); });
}

}  // namespace runtime::bench
