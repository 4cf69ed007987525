// Arguments: a device plugin with the operation scale, and the plugin `reference`. Exits with 0 if
// the plugin passes the checks of scale, and the library of kernels computes it.
#include <cstdio>
#include <exception>

#include "backends/reference/kernel.h"
#include "plugins/conformance/conformance.h"
#include "rt/operations.h"

namespace host = plugins::host;

namespace {

// y = 2 x + 1
bool kernels_compute() {
  host::Operation operation;
  operation.name = RT_OP_SCALE;
  operation.inputs = operation.outputs = {host::make_tensor_desc(RT_FLOAT32, {3})};
  operation.attributes = {{RT_ATTR_ALPHA, 2.0}, {RT_ATTR_BETA, 1.0}};
  const host::OperationView view(operation);
  const auto kernel = backends::reference::make_kernel(rt::sdk::Operation(view.get()));
  const float x[] = {1, 2, 3};
  float y[] = {0, 0, 0};
  const void* const inputs[] = {x};
  void* const outputs[] = {y};
  kernel.run({inputs, outputs});
  return y[0] == 3 && y[1] == 5 && y[2] == 7;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw std::runtime_error("two arguments are expected: two plugins");
  const auto device = host::Device::open(host::Plugin::load(argv[1], {}), 0);
  const auto reference = host::Device::open(host::Plugin::load(argv[2], {}), 0);
  namespace conformance = plugins::conformance;
  const auto summary = run_cases(*device, *reference, conformance::cases_of(RT_OP_SCALE, *device));
  std::printf("%s\n", summary.text().c_str());
  if (!kernels_compute()) throw std::runtime_error("the kernel of scale computes something else");
  return summary.passed > 0 && summary.failed == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
