// Prints the plugins of the standard search path and the shared libraries that this process has
// mapped from them.
#include <fstream>
#include <iostream>
#include <string>

#include "plugins/host/registry.h"

int main() {
  const plugins::host::Registry registry(plugins::host::SearchPath::standard(), {});
  for (const auto& plugin : registry.plugins()) std::cout << "plugin " << plugin->name() << "\n";
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
