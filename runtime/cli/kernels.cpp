// Prints the table of plan with a data sheet: kernels, bytes, FLOPs and least times.
#include "runtime/cli/kernels.h"

#include <fmt/format.h>

#include "plugins/host/nearest.h"
#include "runtime/analysis/job_plan.h"
#include "runtime/analysis/least_time.h"
#include "runtime/cli/say.h"
#include "runtime/terminal/table.h"

namespace runtime::cli {

namespace {

void print_table(const analysis::LeastTime& least) {
  using Kind = terminal::Column::Kind;
  terminal::Table table({{"operation"},
                         {"implementation", Kind::kText, 1, terminal::Keep::kEnd},
                         {"kernel"},
                         {"launches", Kind::kNumber, 2},
                         {"MB", Kind::kNumber, 3},
                         {"GFLOP", Kind::kNumber, 4},
                         {"us", Kind::kNumber},
                         {"%", Kind::kNumber}});
  for (const analysis::KernelTime& k : least.kernels) {
    table.add({k.operation, k.implementation, k.kernel, fmt::format("{}", k.launches),
               fmt::format("{:.3f}", k.bytes / 1e6), fmt::format("{:.3f}", k.flops / 1e9),
               fmt::format("{:.2f}", k.seconds * 1e6),
               fmt::format("{:.1f}", 100 * k.seconds / least.seconds())});
  }
  fmt::print("\n");
  table.print();
}

}  // namespace

void show_kernels(train::StepPrograms& programs, const analysis::DeviceSheet& sheet) {
  const train::StepProgram& step = programs.any_compiled();
  const int64_t batch = programs.setup().config.training.global_batch_size;
  const analysis::LeastTime least = analysis::least_time(
      *step.program, parallel::micro_steps(batch, programs.setup().strategy.batch), sheet.limits);
  if (least.launches == 0) {
    say("\n{} does not tell which kernels it queues; each operation counts with its FLOPs, and "
        "reads and writes its operands once\n",
        programs.setup().device->id());
    return;
  }
  print_table(least);
  say("\nleast time: {:.3f} ms a step: {} launches, {:.3f} GB and {:.3f} TFLOP take {:.3f} ms at "
      "{} TB/s and {} TFLOP/s; gaps of {} us take {:.3f} ms ({:.1f} %)\n",
      least.seconds() * 1e3, least.launches, least.bytes / 1e9, least.flops / 1e12,
      least.kernel_seconds * 1e3, sheet.limits.bytes_per_second * 1e-12,
      sheet.limits.flops_per_second * 1e-12, sheet.limits.launch_seconds * 1e6,
      least.gap_seconds * 1e3, 100 * least.gap_seconds / least.seconds());
  if (!least.left_out.empty())
    say("not included, because the device does not tell their kernels: {}\n",
        plugins::host::join_names(least.left_out));
}

}  // namespace runtime::cli
