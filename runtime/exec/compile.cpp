#include "runtime/exec/compile.h"

#include "runtime/graph/fuse.h"

namespace runtime::exec {

Compiled compile(graph::Graph graph, std::shared_ptr<plugins::host::Device> device,
                 Storage& storage, Arena& arena, const CompileOptions& options) {
  DeviceTarget target(device, options.target);
  Compiled result;
  result.notes = graph::fit_to_device(graph, target);
  result.program = std::make_unique<Program>(std::move(graph), device, storage, arena,
                                             options.collectives, options.record);
  return result;
}

}  // namespace runtime::exec
