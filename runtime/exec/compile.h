// Makes a program of a graph that is not a training step; step/compile_step.h compiles those.
#ifndef RUNTIME_EXEC_COMPILE_H_
#define RUNTIME_EXEC_COMPILE_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/device_target.h"
#include "runtime/exec/program.h"

namespace runtime::exec {

// How programs are compiled and run.
struct CompileOptions {
  TargetOptions target = {};
  // Of this rank, if there are several; must outlive the programs.
  Collectives* collectives = nullptr;
  bool record = false;  // see Program's constructor
};

// What compile() returns.
struct Compiled {
  std::unique_ptr<Program> program;
  std::vector<std::string> notes;  // what the passes replaced, lines for the log
};

// Fits the graph to the device, then makes kernels and the memory plan. Storage and arena must
// outlive the program. Throws DeviceError or plugins::host::Error.
Compiled compile(graph::Graph graph, std::shared_ptr<plugins::host::Device> device,
                 Storage& storage, Arena& arena, const CompileOptions& options);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_COMPILE_H_
