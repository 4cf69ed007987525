// config_reference FILE: writes the reference of every key after the mark in FILE, which is
// configs/README.md. Run it by hand (target update_config_reference) after a change of the schema.
#include <fstream>
#include <iostream>
#include <sstream>

#include "runtime/config/reference.h"
#include "runtime/model/layer_types.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: config_reference configs/README.md\n";
    return 2;
  }
  std::stringstream old;
  old << std::ifstream(argv[1]).rdbuf();
  const std::string mark = runtime::config::kReferenceMark;
  const size_t at = old.str().find(mark);
  if (at == std::string::npos) {
    std::cerr << argv[1] << ": has no line \"" << mark << "\"; add it where the reference begins\n";
    return 2;
  }
  std::ofstream(argv[1]) << old.str().substr(0, at + mark.size())
                         << runtime::config::reference_markdown(runtime::model::layer_types());
  return 0;
}
