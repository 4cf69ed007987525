// Loads the plugin "example" as the runtime would, from RUNTIME_PLUGIN_PATH, and computes with it.
// Argument: the folder that the plugin must come from. Exits with 0 if all checks pass.
#include <cstdio>
#include <filesystem>

#include "plugins/host/device.h"
#include "plugins/host/registry.h"
#include "rt/operations.h"

using namespace plugins::host;

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("one argument is expected: the folder of the plugin");
  SearchPath path = SearchPath::standard();
  path.probe = PLUGIN_PROBE;
  const Registry registry(path, {});
  const auto plugin = registry.open("example");
  if (plugin->path().parent_path() != std::filesystem::path(argv[1])) {
    throw std::runtime_error("loaded from " + plugin->path().string());
  }
  const auto device = Device::open(plugin, 0);
  Operation operation;
  operation.name = RT_OP_SCALE;
  operation.inputs = operation.outputs = {make_tensor_desc(RT_FLOAT32, {3})};
  operation.attributes = {{RT_ATTR_ALPHA, 2.0}, {RT_ATTR_BETA, 1.0}};
  Kernel kernel = device->create_kernel(operation);
  Stream stream = device->create_stream();
  Memory x = device->allocate(12), y = device->allocate(12);
  float values[] = {1, 2, 3};
  stream.copy(x.data(), values, sizeof(values));
  const void* inputs[] = {x.data()};
  void* outputs[] = {y.data()};
  kernel.launch(stream, {sizeof(rt_launch), 1, inputs, outputs, 1, 0, nullptr, nullptr});
  stream.copy(values, y.data(), sizeof(values));
  stream.synchronize();
  if (values[0] != 3 || values[1] != 5 || values[2] != 7) throw std::runtime_error("wrong result");
  std::printf("%s computes\n", device->id().c_str());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
