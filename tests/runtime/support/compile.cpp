// Fits a graph to a device and makes a program of it.
#include "tests/runtime/support/compile.h"

#include "runtime/graph/fuse.h"
#include "runtime/graph/lower.h"

namespace runtime::test {

Compiled compile(graph::Graph graph, const std::shared_ptr<plugins::host::Device>& device,
                 exec::Storage& storage, exec::Arena& arena, const exec::CompileOptions& options) {
  exec::DeviceTarget target(device, options.target);
  Compiled result;
  result.notes = graph::fit_to_device(graph, target);
  for (std::string& note : graph::lower_rest(graph, target))
    result.notes.push_back(std::move(note));
  result.program =
      std::make_unique<exec::Program>(std::move(graph), device, storage, arena, options);
  return result;
}

}  // namespace runtime::test
