// Makes a program of a graph that is not a training step; runtime/step compiles those.
#ifndef TESTS_RUNTIME_SUPPORT_COMPILE_H_
#define TESTS_RUNTIME_SUPPORT_COMPILE_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/compile_options.h"
#include "runtime/exec/program.h"

namespace runtime::test {

// compile() returns this.
struct Compiled {
  std::unique_ptr<exec::Program> program;
  std::vector<std::string> notes;  // what the passes replaced, lines for the log
};

// Fits the graph to the device, then makes kernels and the memory plan. Storage and arena must
// outlive the program. Throws DeviceError or plugins::host::Error.
Compiled compile(graph::Graph graph, const std::shared_ptr<plugins::host::Device>& device,
                 exec::Storage& storage, exec::Arena& arena, const exec::CompileOptions& options);

}  // namespace runtime::test

#endif  // TESTS_RUNTIME_SUPPORT_COMPILE_H_
