// Opens the plugins of the standard search path, and prints them and the shared libraries that the
// process has mapped from that path. Argument: the path of plugin_probe, if programs would not find
// it.
#include <fstream>
#include <iostream>
#include <string>

#include "plugins/host/registry.h"

int main(int argc, char** argv) {
  auto path = plugins::host::SearchPath::standard();
  if (argc > 1) path.probe = argv[1];
  const plugins::host::Registry registry(path, {});
  for (const auto& plugin : registry.plugins())
    std::cout << "plugin " << registry.open(plugin.name)->name() << "\n";
  for (const auto& r : registry.rejections()) {
    std::cout << "rejected " << r.path.string() << ": " << r.reason << "\n";
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t slash = line.find('/');
    if (slash != std::string::npos && line.find(".so") != std::string::npos) {
      std::cout << "mapped " << line.substr(slash) << "\n";
    }
  }
  return 0;
}
