// The program `runtime-tune`, which `runtime tune` becomes.
#include <CLI/CLI.hpp>

#include "runtime/cli/number_checks.h"
#include "tools/tune/batch.h"
#include "tools/tune/lr.h"

namespace tools::tune {
namespace {

using runtime::cli::between;
using runtime::cli::positive;

void add_batch(CLI::App& app, BatchArguments& a, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "batch", "Finds the largest batch size that fits, and the fastest; each trial is a process");
  a.config.add_to(*command);
  command->add_option("--start", a.start, "The first batch size; default: 16 for each rank")
      ->check(positive(a.start));
  command->add_option("--most", a.most, "No larger batch size is tried")->check(positive(a.most));
  command->add_option("--steps", a.steps, "The measured steps of each trial; default 10")
      ->check(between(a.steps, 1, 1000000));
  command
      ->add_option("--precision", a.precision,
                   "How far the result may be from the largest size that fits, as a share of it; "
                   "default 0.05, 0: not at all")
      ->check(between(a.precision, 0.0, 1.0));
  command
      ->add_option("--timeout", a.timeout_s,
                   "Seconds after which a trial counts as one that does not fit; default 300")
      ->check(positive(a.timeout_s));
  command
      ->add_option("--memory-limit", a.memory_limit,
                   "The address space of each process in bytes (ulimit -v); K, M and G are powers "
                   "of 1024; for devices whose memory is the host's")
      ->transform(CLI::AsSizeValue(false));
  a.output.add_to(*command);
  command->footer(
      "Doubles the batch size until it does not fit, then bisects. What does not fit is a trial "
      "that runs out of memory, is\nkilled by the system, takes too long or is refused (a batch "
      "above the size of the data set).\n"
      "Examples:\n  runtime tune batch configs/fashion_mnist_lenet.toml\n"
      "  runtime tune batch configs/bench_gpt.toml --nproc 2 --output batch.svg --output "
      "batch.json\n"
      "  runtime tune batch configs/bench_mlp.toml --memory-limit 1G --precision 0");
  command->callback([&a, &exit_code] { exit_code = tune_batch(a); });
}

void add_lr(CLI::App& app, LrArguments& a, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "lr", "Finds a learning rate: trains while the rate grows, and looks at the loss");
  a.config.add_to(*command);
  command->add_option("--from", a.from, "The rate of the first step; default 1e-6")
      ->check(positive(a.from));
  command->add_option("--to", a.to, "The rate of the last step; default 10")->check(positive(a.to));
  command->add_option("--steps", a.steps, "The number of steps; default 100")
      ->check(between(a.steps, 10, 1000000));
  command
      ->add_option("--diverged", a.diverged,
                   "Ends when the smoothed loss is so many times the lowest one; default 4")
      ->check(between(a.diverged, 1.0, 1e9));
  a.output.add_to(*command);
  command->footer(
      "The learning-rate range test of Leslie Smith, with rates that grow by the same factor each "
      "step. Validations,\ncheckpoints and the schedule of the configuration are left out; the "
      "files of the run are removed.\n"
      "Examples:\n  runtime tune lr configs/fashion_mnist_lenet.toml\n"
      "  runtime tune lr configs/csv_regression.toml --from 1e-5 --to 1 --steps 200 --output "
      "lr.svg");
  command->callback([&a, &exit_code] { exit_code = tune_lr(a); });
}

int main_of(int argc, char** argv) {
  CLI::App app{"Finds the batch size that fits and the fastest, or a learning rate."};
  app.name("runtime tune");
  app.require_subcommand(1);
  int exit_code = 0;
  BatchArguments batch;
  LrArguments lr;
  add_batch(app, batch, exit_code);
  add_lr(app, lr, exit_code);
  return trials::run_program(app, argc, argv, exit_code);
}

}  // namespace
}  // namespace tools::tune

int main(int argc, char** argv) { return tools::tune::main_of(argc, argv); }
