// The program `runtime-bench`, which `runtime bench` becomes.
#include <CLI/CLI.hpp>
#include <memory>

#include "runtime/cli/number_checks.h"
#include "runtime/cli/parse.h"
#include "runtime/cli/program.h"
#include "tools/bench/bench.h"

namespace runtime::bench {
namespace {

using cli::between;

void add_bench_comm(CLI::App& bench, Outcome& outcome) {
  auto arguments = std::make_shared<CommArguments>();
  CLI::App* command = bench.add_subcommand(
      "comm", "Prints time and bandwidth of each collective among ranks, as nccl-tests does");
  arguments->config.add_to(*command);
  command->get_option("CONFIG")->required(false);
  arguments->config.add_ranks_to(*command);
  command
      ->add_option("--collective", arguments->collectives,
                   "The collectives, separated by commas, or all")
      ->delimiter(',')
      ->check(CLI::IsMember(comm_collectives()));
  // Sizes may end in K, M or G for powers of 1024.
  command->add_option("--min-bytes", arguments->min_bytes, "The smallest size, default 4K")
      ->transform(CLI::AsSizeValue(false))
      ->check(between(arguments->min_bytes, uint64_t{4}, uint64_t{1} << 32));
  command->add_option("--max-bytes", arguments->max_bytes, "The largest size, default 64M")
      ->transform(CLI::AsSizeValue(false))
      ->check(between(arguments->max_bytes, uint64_t{4}, uint64_t{1} << 32));
  command->add_flag("--json", arguments->json, "Prints one JSON object instead of a table");
  command->footer(
      "Sizes are of the larger buffer and grow fourfold. algbw is size / time, busbw what each "
      "rank\n"
      "sends and receives / time (nccl-tests, doc/PERFORMANCE.md): it can be compared between\n"
      "collectives and numbers of ranks.\n"
      "Examples:\n  runtime bench comm --nproc 4\n  runtime bench comm --nproc 2 --set "
      "comm.backend=gloo --collective all_reduce --min-bytes 1M --max-bytes 1M --json\n  mpirun -n "
      "2 "
      "runtime bench comm");
  command->callback([arguments, &outcome] { run_bench_comm(*arguments, outcome); });
}

void add_bench(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<BenchArguments>();
  arguments->config.add_to(app);
  app.get_option("CONFIG")->required(false);
  arguments->config.add_ranks_to(app);
  app.add_option("--steps", arguments->steps, "The number of measured steps, after a warm-up")
      ->check(between(arguments->steps, 1, 1000000));
  app.add_flag("--json", arguments->json, "Prints one JSON object instead of a table");
  CLI::Option* layers = app.add_flag(
      "--layers", arguments->layers,
      "Prints a table of rank 0's operations: measured time, time that the plan assumed, FLOP/s");
  app.add_flag("--data", arguments->data, "Measures only how fast batches are made; no steps")
      ->excludes(layers);
  CLI::Option* scaling =
      app.add_option("--scaling", arguments->scaling,
                     "Numbers of ranks, e.g. 1,2,4: one run of this program each, the same "
                     "threads for every rank, and a table: does adding ranks pay?")
          ->delimiter(',')
          ->check(between(int(), 1, 4096))
          ->excludes(layers)
          ->excludes("--nproc")
          ->excludes("--data");
  CLI::Option* inference =
      app.add_flag("--inference", arguments->inference,
                   "Measures the forward pass alone, as evaluate and predict run it; on one rank");
  app.add_option("--batch", arguments->batch, "With --inference: the samples of a batch")
      ->check(between(arguments->batch, 1, 1 << 20))
      ->needs(inference);
  inference->excludes(scaling)->excludes("--nproc")->excludes("--data");
  app.add_flag("--weak", arguments->weak, "With --scaling: the batch per rank is fixed")
      ->needs(scaling);
  app.add_option("--rounds", arguments->rounds,
                 "With --scaling: the runs of each number of ranks, of which the median counts")
      ->check(between(arguments->rounds, 1, 1000))
      ->needs(scaling);
  app.footer(
      "Examples:\n  runtime bench configs/bench_lenet.toml --steps 100 --json\n  runtime bench "
      "configs/bench_resnet18.toml --layers --steps 10\n  runtime bench configs/bench_lenet.toml "
      "--scaling 1,2,4 --rounds 5\n  runtime bench configs/bench_mlp.toml --scaling 1,2 --weak "
      "--set comm.backend=gloo\n  runtime bench configs/bench_mlp.toml --inference --batch 1\n  "
      "runtime "
      "bench configs/cifar10_resnet18.toml --data\n  runtime bench comm --nproc 4");
  add_bench_comm(app, outcome);
  app.callback([arguments, &app, &outcome] {
    if (app.get_subcommands().empty()) run_bench(*arguments, outcome);
  });
}

int command_line(int argc, char** argv) {
  CLI::App app{"Measures step time, samples/s, FLOP/s and peak memory of training."};
  app.name("runtime bench");
  Outcome outcome;
  add_bench(app, outcome);
  return cli::parse_and_run(app, argc, argv, outcome);
}

}  // namespace
}  // namespace runtime::bench

int main(int argc, char** argv) {
  return runtime::cli::run_program(argc, argv, runtime::bench::command_line);
}
