// Copies the files of a template, puts the new name in, and adds a workflow for CI.
#include "plugins/new/project.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "plugins/host/error.h"
#include "plugins/host/limits.h"
#include "plugins/host/nearest.h"

namespace plugins::create {

namespace {

namespace fs = std::filesystem;

// What every new project gets beside the files of its template.
constexpr char kIgnored[] = "build/\n";
constexpr char kWorkflow[] =
    R"(# Builds the plugin and tries it against the contract of the runtime.
#
# Give the repository a variable RUNTIME_PACKAGES: the address of a .tar.gz with the Debian packages of the runtime
# (runtime and runtime-dev) that you support.
name: check
on: [push, pull_request]
jobs:
  check:
    runs-on: ubuntu-latest
    container: debian:12
    steps:
      - uses: actions/checkout@v4
      - run: apt-get update && apt-get install -y --no-install-recommends ca-certificates cmake curl g++ make
      - run: mkdir /packages && curl -fsSL "${{ vars.RUNTIME_PACKAGES }}" | tar -xz -C /packages && apt-get install -y /packages/*.deb
      - run: cmake -B build && cmake --build build
      - run: runtime plugins check build/lib/runtime/plugins/lib@name@.so --junit check.xml
      - uses: actions/upload-artifact@v4
        if: always()
        with: { name: check, path: check.xml }
)";

const Kind& find_kind(const std::string& word) {
  std::vector<std::string> known;
  for (const Kind& kind : kinds()) {
    if (kind.word == word) return kind;
    known.push_back(kind.word);
  }
  throw Refusal("--kind " + word + " is unknown" + host::suggestion(word, known));
}

void check_name(const std::string& name) {
  try {
    host::check_name(name, "NAME");
  } catch (const host::Error& error) {
    throw Refusal(error.what());
  }
}

std::string read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Refusal("cannot read " + file.string() + " of the template");
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::binary);
  if (!(stream << text).flush()) throw Refusal("cannot write " + file.string());
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// The name stands in code as it is and in include guards in capitals.
std::string renamed(const std::string& text, const std::string& from, const std::string& to) {
  return replaced(replaced(text, from, to), upper(from), upper(to));
}

void fill(const Project& project, const Kind& kind, const fs::path& folder) {
  const fs::path from = project.templates / kind.folder;
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    const std::string name =
        renamed(entry.path().lexically_relative(from).string(), kind.folder, project.name);
    write(folder / name, renamed(read(entry.path()), kind.folder, project.name));
  }
  write(folder / ".gitignore", kIgnored);
  write(folder / ".github/workflows/check.yml", replaced(kWorkflow, "@name@", project.name));
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(folder));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"device", "template_device", "a compute device with its kernels"},
      {"communicator", "template_communicator", "collectives over a network"},
      {"operation", "template_operation", "operations, layers and optimizers as formulas"}};
  return all;
}

std::vector<fs::path> make_project(const Project& project) {
  const Kind& kind = find_kind(project.kind);
  check_name(project.name);
  if (fs::exists(project.output))
    throw Refusal(project.output.string() + " exists; choose another NAME or --output");
  if (!fs::is_directory(project.templates / kind.folder)) {
    throw Refusal("there is no template in " + (project.templates / kind.folder).string() +
                  "; install the headers and examples for authors of plugins (Debian: runtime-dev, "
                  "CMake: the component plugin_sdk)");
  }
  // A folder of another name, so that a failure leaves no half of a project.
  const fs::path unfinished = project.output.string() + ".unfinished";
  try {
    fs::create_directories(unfinished);
    fill(project, kind, unfinished);
    fs::rename(unfinished, project.output);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    throw;
  }
  return files_in(project.output);
}

}  // namespace plugins::create
