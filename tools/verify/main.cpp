// The program `runtime-verify`, which `runtime verify` becomes.
#include <CLI/CLI.hpp>

#include "runtime/cli/number_checks.h"
#include "runtime/cli/parse.h"
#include "runtime/cli/program.h"
#include "tools/verify/verify.h"

namespace runtime::verify {
namespace {

using cli::between;
using cli::positive;

// Adds the options of `verify` that run a case again, and returns that which names the case.
CLI::Option* add_case_options(CLI::App& command, VerifyArguments& a) {
  CLI::Option* folder = command.add_option(
      "--case", a.case_folder, "Runs the operation in such a folder again; needs no CONFIG");
  command
      .add_option("--device", a.device,
                  "With --case: the device that runs the operation (cpu, cuda:1); default: the "
                  "one it was found "
                  "on")
      ->needs(folder);
  command
      .add_option(
          "--candidate", a.candidate,
          "With --case: the implementation to run, or all; default: the recorded one, or all "
          "where the device does not have that")
      ->needs(folder);
  return folder;
}

// Adds the options of `verify` about the steps that it compares; `folder` excludes them.
void add_step_options(CLI::App& command, VerifyArguments& a, CLI::Option* folder) {
  command
      .add_option("--steps", a.steps, "The number of steps; default: 3, or all that the file has")
      ->check(between(a.steps, 1, 999))
      ->excludes(folder);
  command
      .add_option("--rtol", a.rtol,
                  "Allowed ||actual - expected|| / ||expected||; default: 1e-4, 1e-9 with "
                  "float64, 2e-2 with 16-bit values, or what a device claims if that is more")
      ->check(positive(a.rtol))
      ->excludes(folder);
  command
      .add_flag(
          "--isolate", a.isolate,
          "Gives every operation the right values as input, so that differences do not add up "
          "from layer to layer")
      ->excludes(folder);
  command
      .add_option("--max-gib", a.max_gib,
                  "Refuses when the values of a step, or of all recorded steps, take more host "
                  "memory; default 8")
      ->check(positive(a.max_gib))
      ->excludes(folder);
}

int command_line(int argc, char** argv) {
  CLI::App app{
      "Runs the same steps on two devices and names the first step, layer and tensor that differ, "
      "with the operation that is at fault."};
  app.name("runtime verify");
  Outcome outcome;
  VerifyArguments a;
  a.config.add_to(app);
  app.get_option("CONFIG")->required(false);
  CLI::Option* against =
      app.add_option("--against", a.against,
                     "The values taken as right: those of a backend (reference, cpu, cuda:1), "
                     "or of a file (with a / or .safetensors in "
                     "its name) that --record or another framework has written");
  CLI::Option* record = app.add_option(
      "--record", a.record, "Writes the steps of the configuration's device into this file");
  record->excludes(against);
  CLI::Option* reduce = app.add_option(
      "--reduce", a.reduce,
      "Search the first step that differs for the operation that is at fault, and write it to this "
      "new folder: a case that --case runs again on any device");
  reduce->needs(against);
  CLI::Option* folder = add_case_options(app, a);
  folder->excludes(against)->excludes(record);
  app.add_flag("--gradients", a.gradients,
               "Compares the gradients of the operations that plugins bring to the model with "
               "central differences, in float64")
      ->excludes(against)
      ->excludes(record)
      ->excludes(folder);
  add_step_options(app, a, folder);
  app.add_flag("--json", a.json, "Prints one JSON object instead of a table");
  app.footer(
      "Each step starts from the same weights and state, its update from the same gradients, on "
      "both\n"
      "sides. Exit code 6: they differ, with --reduce also where that is rounding alone, and with "
      "--case\nthe operation is still wrong.\n"
      "Examples:\n  runtime verify configs/bench_lenet.toml --set device.backend=cuda --against "
      "cpu\n  runtime verify configs/bench_gpt.toml --record gpt.safetensors --steps 2\n"
      "  runtime verify configs/bench_gpt.toml --against gpt.safetensors\n"
      "  runtime verify configs/bench_lenet.toml --against pytorch_step.safetensors\n"
      "  runtime verify configs/bench_lenet.toml --set device.backend=cuda --against reference "
      "--reduce wrong\n"
      "  runtime verify --case wrong\n"
      "  runtime verify --case wrong --device cpu --candidate all");
  app.callback([&] { run_verify(a, outcome); });
  return cli::parse_and_run(app, argc, argv, outcome);
}

}  // namespace
}  // namespace runtime::verify

int main(int argc, char** argv) {
  return runtime::cli::run_program(argc, argv, runtime::verify::command_line);
}
