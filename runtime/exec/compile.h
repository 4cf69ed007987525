// Graph -> program: the passes in their order, with layout decisions kept on disk.
#ifndef RUNTIME_EXEC_COMPILE_H_
#define RUNTIME_EXEC_COMPILE_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/program.h"

namespace runtime::exec {

enum class Tune {
  kOff,    // layouts and algorithms by the backend's estimates
  kQuick,  // measured, within about a second
  kFull,   // measured, whatever it takes
};

struct CompileOptions {
  Tune tune = Tune::kQuick;
  bool deterministic = false;  // deterministic implementations only; never measures
  // Where measured decisions are kept: one for each (backend build, device, threads, graph). Empty:
  // not kept.
  std::filesystem::path cache_folder;
  // Of the rank, where there are several; outlives the programs.
  Collectives* collectives = nullptr;
  bool record = false;  // see Program
};

struct Compiled {
  std::unique_ptr<Program> program;
  std::vector<std::string> notes;  // what the passes replaced, for the log
};

// Lowering, fusion, removal of dead nodes, layouts, kernels, memory plan. Throws DeviceError or
// plugins::host::Error.
// `distribute` (may be empty) rewrites the graph when kernels and layouts have been chosen.
Compiled compile(graph::Graph graph, std::shared_ptr<plugins::host::Device> device,
                 Storage& storage, Arena& arena, const CompileOptions& options,
                 const std::function<void(graph::Graph&)>& distribute = nullptr);

// $XDG_CACHE_HOME/runtime, else ~/.cache/runtime; empty if neither variable is set.
std::filesystem::path default_cache_folder();

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_COMPILE_H_
