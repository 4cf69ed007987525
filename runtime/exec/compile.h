// Compiles a graph to a program: the passes in their order, with layout decisions kept on disk.
#ifndef RUNTIME_EXEC_COMPILE_H_
#define RUNTIME_EXEC_COMPILE_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/program.h"

namespace runtime::exec {

// How layouts and algorithms are chosen. Equivalent to: torch.backends.cudnn.benchmark.
enum class Tune {
  kOff,    // by the backend's estimates
  kQuick,  // measured, for about a second at most
  kFull,   // measured, without a time limit
};

// Input of compile().
struct CompileOptions {
  Tune tune = Tune::kQuick;
  bool deterministic = false;  // deterministic implementations only; nothing is measured
  // Where measured decisions are kept, one for each backend build, device, threads and graph.
  // Empty: they are not kept.
  std::filesystem::path cache_folder;
  // Of this rank, if there are several; must outlive the programs.
  Collectives* collectives = nullptr;
  bool record = false;  // see Program's constructor
};

// What compile() returns.
struct Compiled {
  std::unique_ptr<Program> program;
  std::vector<std::string> notes;  // what the passes replaced, lines for the log
};

// Runs lowering, fusion, removal of dead nodes and layouts, then makes kernels and the memory plan.
// `distribute` (may be empty) rewrites the graph after kernels and layouts have been chosen.
// Storage and arena must outlive the program. Throws DeviceError or plugins::host::Error.
// Equivalent to: torch.compile, ahead of time.
Compiled compile(graph::Graph graph, std::shared_ptr<plugins::host::Device> device,
                 Storage& storage, Arena& arena, const CompileOptions& options,
                 const std::function<void(graph::Graph&)>& distribute = nullptr);

// $XDG_CACHE_HOME/runtime, else ~/.cache/runtime; empty if neither variable is set.
std::filesystem::path default_cache_folder();

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_COMPILE_H_
